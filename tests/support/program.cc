#include "tests/support/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/file/unique_fd.h"
#include "tests/support/kernel.h"
#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

constexpr int kFirstInherited = 3;
constexpr char kPath[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs between fork and exec: async-signal-safe calls only, because this process has threads.
[[noreturn]] void Become(const Program::Command& command, int log, char* const* arguments, char* const* environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it dies with its test
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(log, 1);
  ::dup2(log, 2);
  int next = kFirstInherited;
  for (const int inherited : command.inherited) ::dup2(inherited, next++);
  ::close_range(static_cast<unsigned>(next), ~0U, CLOSE_RANGE_CLOEXEC);
  if (command.own_mount_namespace && ::unshare(CLONE_NEWNS) != 0) ::_exit(126);
  ::execve(command.binary.c_str(), arguments, environment);
  ::_exit(127);
}

}  // namespace

void Program::Launch(Command command) {
  ASSERT_LT(pid_, 0) << "it runs already";
  const auto is_path = [](const std::string& variable) { return variable.starts_with("PATH="); };
  if (std::none_of(command.environment.begin(), command.environment.end(), is_path)) {
    command.environment.emplace_back(kPath);
  }
  log_file_ = command.log_file;
  const std::vector<char*> arguments = Pointers(command.arguments);
  const std::vector<char*> environment = Pointers(command.environment);
  const UniqueFd log(::open(log_file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ASSERT_TRUE(log.ok()) << log_file_;
  pid_ = ::fork();
  if (pid_ == 0) Become(command, log.get(), arguments.data(), environment.data());
  ASSERT_GT(pid_, 0);
}

bool Program::running() {
  if (pid_ < 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) return true;
  pid_ = -1;
  exit_status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return false;
}

int Program::Wait(std::chrono::seconds patience) {
  if (WaitUntil([this] { return !running(); }, patience)) return exit_status_;
  ADD_FAILURE() << "the program does not end:\n" << Log();
  return Kill();
}

int Program::Terminate() { return End(SIGTERM); }
int Program::Kill() { return End(SIGKILL); }

int Program::End(int signal) {
  if (running()) ::kill(pid_, signal);
  return Wait();
}

std::string Program::Log() const { return ReadFile(log_file_); }

}  // namespace mooring::testing
