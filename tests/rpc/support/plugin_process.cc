#include "tests/rpc/support/plugin_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/driver.h"
#include "tests/support/kernel.h"
#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

// The binary of this build, or another one that must pass the same tests.
const char* Binary() {
  const char* other = std::getenv("MOORING_TEST_PLUGIN");
  return other != nullptr ? other : MOORING_PLUGIN_BINARY;
}

constexpr char kPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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
  all.emplace("PATH", kPath);
  all.emplace("MOORING_MOUNT_ROOT", "/");  // because tests have directories in many places; --mount-root replaces it
  std::vector<std::string> environment;
  for (const auto& [name, value] : all) environment.push_back(name + "=" + value);
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs between fork and exec. This process has threads, so only async-signal-safe calls are allowed.
[[noreturn]] void Become(const char* binary, int log, bool own_mount_namespace, char* const* arguments,
                         char* const* environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the plugin dies with its test
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // the plugin does not inherit open files of the test
  if (own_mount_namespace && ::unshare(CLONE_NEWNS) != 0) ::_exit(126);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::execve(binary, arguments, environment);
  ::_exit(127);
}

}  // namespace

PluginProcess::~PluginProcess() { Kill(); }

void PluginProcess::Launch() {
  ASSERT_LT(pid_, 0) << "the plugin runs already";
  std::vector<std::string> arguments = Arguments(options_);
  std::vector<std::string> environment = Environment(options_);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  const UniqueFd log(::open(options_.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ASSERT_TRUE(log.ok()) << options_.log_file;
  const char* binary = options_.first.empty() ? Binary() : "/bin/sh";
  pid_ = ::fork();
  if (pid_ == 0) Become(binary, log.get(), options_.own_mount_namespace, argv.data(), envp.data());
  ASSERT_GT(pid_, 0);
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

bool PluginProcess::running() {
  if (pid_ < 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) return true;
  pid_ = -1;
  exit_status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return false;
}

int PluginProcess::Wait(std::chrono::seconds patience) {
  if (WaitUntil([this] { return !running(); }, patience)) return exit_status_;
  ADD_FAILURE() << "the plugin does not end:\n" << Log();
  return Kill();
}

int PluginProcess::End(int signal) {
  if (running()) ::kill(pid_, signal);
  return Wait();
}

PluginRun RunPlugin(PluginProcess::Options options) {
  PluginProcess process(std::move(options));
  process.Launch();
  const int status = process.Wait(std::chrono::seconds(10));
  const PluginRun run = {status, process.Log()};
  ::unlink(process.options().log_file.c_str());
  return run;
}

int PluginProcess::Terminate() { return End(SIGTERM); }
int PluginProcess::Kill() { return End(SIGKILL); }

std::string PluginProcess::Log() const { return ReadFile(options_.log_file); }

}  // namespace mooring::testing
