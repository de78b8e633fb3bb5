#include "mounter/process/child_call.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/child.h"
#include "base/file/pipe.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "mounter/process/child_output.h"
#include "mounter/process/helper_calls.h"

namespace mooring {
namespace {

constexpr std::chrono::milliseconds kDeath{2000};

// Signals that would end this process and leave the group of the child behind.
class Interruption {
 public:
  Interruption() {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
      struct sigaction now = {};
      if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) ::sigaddset(&signals, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
    fd_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  const UniqueFd& fd() const { return fd_; }  // readable: a signal has come

  // Takes a signal that has come. 0: none.
  int Take() const {
    signalfd_siginfo info = {};
    return ::read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_ = {};
  UniqueFd fd_;
};

struct Pipes {
  Pipe answer, errors;
};

absl::StatusOr<Pipes> MakePipes() {
  MOORING_ASSIGN_OR_RETURN(Pipe answer, MakePipe());
  MOORING_ASSIGN_OR_RETURN(Pipe errors, MakePipe());
  ::fcntl(answer.reader.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(errors.reader.get(), F_SETFL, O_NONBLOCK);
  return Pipes{std::move(answer), std::move(errors)};
}

// Afterwards the answer is descriptor 3, and there is no other above it.
bool SetDescriptors(const Pipes& pipes) {
  constexpr int kAnswer = STDERR_FILENO + 1;
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int answer = ::fcntl(pipes.answer.writer.get(), F_DUPFD_CLOEXEC, kAnswer + 1);
  const int errors = ::fcntl(pipes.errors.writer.get(), F_DUPFD_CLOEXEC, kAnswer + 1);
  const bool done = null >= 0 && ::dup2(null, STDIN_FILENO) >= 0 && ::dup2(null, STDOUT_FILENO) >= 0 &&
                    ::dup2(errors, STDERR_FILENO) >= 0 && ::dup3(answer, kAnswer, O_CLOEXEC) >= 0;
  return done && ::close_range(kAnswer + 1, ~0U, 0) == 0;
}

void ResetSignals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void CleanEnvironment() {
  static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", language[] = "LC_ALL=C";
  static char* variables[] = {path, language, nullptr};
  environ = variables;
}

void EndGroup(int) { ::kill(0, SIGKILL); }

// SIGKILL from the kernel would end this process alone, and not the program that it runs.
void EndGroupWith(pid_t parent) {
  ::signal(SIGTERM, EndGroup);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) EndGroup(SIGTERM);
}

absl::Status SetUp(const Pipes& pipes, pid_t parent) {
  ::setsid();
  ::umask(022);
  ResetSignals();
  EndGroupWith(parent);
  CleanEnvironment();
  if (::chdir("/") != 0 || !SetDescriptors(pipes)) return ErrnoStatus(errno, "prepare a child process");
  return ConfineChildCalls();
}

[[noreturn]] void RunAndTell(const Pipes& pipes, pid_t parent, const std::function<absl::Status()>& work) {
  const absl::Status ready = SetUp(pipes, parent);
  const int answer = ready.ok() ? STDERR_FILENO + 1 : pipes.answer.writer.get();
  const absl::Status status = ready.ok() ? work() : ready;
  const std::string text = static_cast<char>(status.code()) + std::string(status.message());
  const ssize_t told = ::write(answer, text.data(), text.size());
  ::_exit(told < 0 ? 1 : 0);
}

// Empty: the child has told nothing.
std::string Read(const UniqueFd& pipe) {
  std::array<char, 4096> text = {};
  const ssize_t got = ::read(pipe.get(), text.data(), text.size());
  return std::string(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
}

// Its group exists until it is waited for.
void Kill(pid_t child) {
  ::kill(-child, SIGKILL);
  ::kill(child, SIGKILL);
}

absl::Status AwaitAnswer(pid_t child, const Pipes& pipes, const std::string& doing, std::chrono::milliseconds limit,
                         const Interruption& interruption, std::string& errors) {
  const UniqueFd pidfd = OpenPidFd(child);
  const bool ended = pidfd.ok() && AwaitEnd(pidfd, pipes.errors.reader, std::chrono::steady_clock::now() + limit,
                                            errors, interruption.fd());
  if (!ended) {
    Kill(child);
    if (EndsWithin(pidfd, kDeath)) AwaitChild(child);
    if (const int signal = interruption.Take(); signal != 0) {
      return absl::CancelledError(
          fmt::format("{}: interrupted by signal {} ({}), and killed", doing, signal, ::strsignal(signal)));
    }
    return absl::DeadlineExceededError(
        fmt::format("{}: not done after {} s, and killed", doing, std::chrono::duration<double>(limit).count()));
  }
  const std::string answer = Read(pipes.answer.reader);
  const bool failed = answer.empty() || answer.front() != static_cast<char>(absl::StatusCode::kOk);
  if (failed) Kill(child);  // the processes that it has left
  const std::string how = HowChildEnded(AwaitChild(child));
  if (answer.empty()) return Internal("{}: the process that does it has ended ({})", doing, how);
  return absl::Status(static_cast<absl::StatusCode>(answer.front()), answer.substr(1));
}

}  // namespace

ChildEnd RunInChild(const std::string& doing, std::chrono::milliseconds limit,
                    const std::function<absl::Status()>& work) {
  absl::StatusOr<Pipes> pipes = MakePipes();
  if (!pipes.ok()) return {pipes.status(), ""};
  const Interruption interruption;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return {ErrnoStatus(errno, "fork, to " + doing), ""};
  if (child == 0) RunAndTell(*pipes, parent, work);
  pipes->answer.writer.reset();
  pipes->errors.writer.reset();
  ChildEnd end;
  end.status = AwaitAnswer(child, *pipes, doing, limit, interruption, end.errors);
  end.errors = OneLine(std::move(end.errors));
  return end;
}

}  // namespace mooring
