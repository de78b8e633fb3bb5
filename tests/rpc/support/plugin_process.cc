#include "tests/rpc/support/plugin_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "tests/rpc/support/driver.h"
#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

// The binary of this build, or another one that must pass the same tests.
const char* Binary() {
  const char* other = std::getenv("MOORING_TEST_PLUGIN");
  return other != nullptr ? other : MOORING_PLUGIN_BINARY;
}

std::vector<std::string> Arguments(const PluginProcess::Options& options) {
  std::vector<std::string> arguments = {"mooring-plugin"};
  if (!options.first.empty()) arguments = {"sh", "-c", options.first + "\nexec \"$0\" \"$@\"", Binary()};
  if (!options.socket.empty()) arguments.insert(arguments.end(), {"--endpoint", "unix://" + options.socket});
  if (!options.state_dir.empty()) arguments.insert(arguments.end(), {"--state-dir", options.state_dir});
  arguments.insert(arguments.end(), options.flags.begin(), options.flags.end());
  return arguments;
}

std::vector<std::string> Environment(const PluginProcess::Options& options) {
  std::map<std::string, std::string> all = options.environment;
  all.emplace("MOORING_MOUNT_ROOT", "/");  // because tests have directories in many places; --mount-root replaces it
  std::vector<std::string> environment;
  for (const auto& [name, value] : all) environment.push_back(name + "=" + value);
  return environment;
}

}  // namespace

void PluginProcess::Launch() {
  Program::Launch({.binary = options_.first.empty() ? Binary() : "/bin/sh",
                   .arguments = Arguments(options_),
                   .environment = Environment(options_),
                   .log_file = options_.log_file,
                   .own_mount_namespace = options_.own_mount_namespace});
}

bool PluginProcess::Start() {
  Launch();
  bool ready = false;
  WaitUntil(
      [&] {
        const auto answer = Driver(options_.socket).Send(ProbeRequest());
        ready = answer.status.ok() && answer->ready().value();
        return ready || !running();
      },
      std::chrono::seconds(10));
  EXPECT_TRUE(ready) << "the plugin does not become ready:\n" << Log();
  return ready;
}

PluginRun RunPlugin(PluginProcess::Options options) {
  PluginProcess process(std::move(options));
  process.Launch();
  const int status = process.Wait(std::chrono::seconds(10));
  const PluginRun run = {status, process.Log()};
  ::unlink(process.options().log_file.c_str());
  return run;
}

}  // namespace mooring::testing
