#include "tests/manager/system/manager_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "base/file/unique_fd.h"
#include "tests/manager/etcd/etcd_cluster.h"

namespace mooring::testing {
namespace {

// All managers share one cluster, each state directory with a prefix of its own.
std::vector<std::string> StateFlags(const std::string& state_dir) {
  if (!IsOverEtcd()) return {};
  const std::string key = state_dir + ".key";
  const UniqueFd file(::open(key.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string digits(64, 'a');
  EXPECT_EQ(::write(file.get(), digits.data(), digits.size()), 64) << key;
  return {"--state",
          SharedCluster().endpoints(),
          "--etcd-prefix",
          "/test" + state_dir + "/",
          "--etcd-secrets-key",
          key,
          "--etcd-lease",
          "6"};
}

std::vector<std::string> Arguments(const ManagerProcess::Options& options) {
  std::vector<std::string> arguments = options.wrapper;
  arguments.insert(arguments.end(), {MOORING_MANAGER_BINARY, "--socket", options.socket, "--state-dir",
                                     options.state_dir, "--runtime-dir", options.runtime_dir, "--host", "host-1"});
  const std::vector<std::string> of_state = StateFlags(options.state_dir);
  arguments.insert(arguments.end(), of_state.begin(), of_state.end());
  arguments.insert(arguments.end(), options.flags.begin(), options.flags.end());
  return arguments;
}

}  // namespace

bool IsOverEtcd() {
  const char* const asked = std::getenv("MOORING_TEST_STATE");
  return asked != nullptr && asked == std::string_view("etcd");
}

void ManagerProcess::Launch() {
  std::vector<std::string> arguments = Arguments(options_);
  Program::Launch({.binary = arguments[0],
                   .arguments = arguments,
                   .environment = options_.environment,
                   .log_file = options_.log_file,
                   .inherited = options_.inherited});
}

}  // namespace mooring::testing
