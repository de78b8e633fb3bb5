#include "tests/manager/system/manager_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/file/unique_fd.h"
#include "tests/manager/etcd/etcd_cluster.h"
#include "tests/support/kernel.h"

namespace mooring::testing {
namespace {

constexpr int kFirstInherited = 3;

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

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs between fork and exec: async-signal-safe calls only, because this process has threads.
[[noreturn]] void Become(int log, const std::vector<int>& inherited, char* const* arguments, char* const* environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(log, 1);
  ::dup2(log, 2);
  for (std::size_t i = 0; i < inherited.size(); ++i) ::dup2(inherited[i], kFirstInherited + static_cast<int>(i));
  ::close_range(kFirstInherited + static_cast<unsigned>(inherited.size()), ~0U, CLOSE_RANGE_CLOEXEC);
  ::execve(arguments[0], arguments, environment);
  ::_exit(127);
}

}  // namespace

bool IsOverEtcd() {
  const char* const asked = std::getenv("MOORING_TEST_STATE");
  return asked != nullptr && asked == std::string_view("etcd");
}

ManagerProcess::~ManagerProcess() { End(SIGKILL); }

void ManagerProcess::Launch() {
  ASSERT_LT(pid_, 0) << "it runs already";
  std::vector<std::string> arguments = Arguments(options_);
  std::vector<std::string> environment = options_.environment;
  environment.emplace_back("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  const UniqueFd log(::open(options_.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ASSERT_TRUE(log.ok()) << options_.log_file;
  pid_ = ::fork();
  if (pid_ == 0) Become(log.get(), options_.inherited, argv.data(), envp.data());
  ASSERT_GT(pid_, 0);
}

bool ManagerProcess::running() {
  if (pid_ < 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) return true;
  pid_ = -1;
  exit_status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return false;
}

int ManagerProcess::Wait(std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (running()) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "the manager does not end:\n" << Log();
      return End(SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return exit_status_;
}

int ManagerProcess::End(int signal) {
  if (running()) ::kill(pid_, signal);
  return Wait();
}

std::string ManagerProcess::Log() const { return ReadFile(options_.log_file); }

}  // namespace mooring::testing
