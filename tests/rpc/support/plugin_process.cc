#include "tests/rpc/support/plugin_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/driver.h"
#include "tests/support/kernel.h"

namespace mooring::testing {
namespace {

using Clock = std::chrono::steady_clock;

// Of this build, or another one that is to pass the same tests.
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
  all.emplace("MOORING_MOUNT_ROOT", "/");  // the test's directories are anywhere; a --mount-root takes its place
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

// Between fork and exec: only what is safe there, since this process has threads.
[[noreturn]] void Become(const char* binary, int log, bool own_mount_namespace, char* const* arguments,
                         char* const* environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that dies takes its plugin along
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // a file that a test has open is not the plugin's
  if (own_mount_namespace && ::unshare(CLONE_NEWNS) != 0) ::_exit(126);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::execve(binary, arguments, environment);
  ::_exit(127);
}

}  // namespace

PluginProcess::~PluginProcess() { Kill(); }

void PluginProcess::Launch() {
  ASSERT_LT(pid_, 0) << "it runs already";
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
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (Clock::now() < deadline && running()) {
    Driver driver(options_.socket);
    const auto answer = driver.Send(csi::v1::ProbeRequest());
    if (answer.status.ok() && answer->ready().value()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "the plugin does not become ready:\n" << Log();
  return false;
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
  const auto deadline = Clock::now() + patience;
  while (running()) {
    if (Clock::now() > deadline) {
      ADD_FAILURE() << "the plugin does not end:\n" << Log();
      return Kill();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return exit_status_;
}

int PluginProcess::End(int signal) {
  if (running()) ::kill(pid_, signal);
  return Wait();
}

int PluginProcess::Terminate() { return End(SIGTERM); }
int PluginProcess::Kill() { return End(SIGKILL); }

std::string PluginProcess::Log() const { return ReadFile(options_.log_file); }

}  // namespace mooring::testing
