#include "manager/launch/held_child.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/child.h"
#include "base/status.h"

namespace mooring::manager {
namespace {

constexpr int kLink = 3;

// Between fork and execve only the calls of signal-safety(7) are allowed: another thread may have held a lock.

void DefaultSignals() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Sets up descriptors 0, 1, 2 and kLink, and closes all others. Otherwise children that are forked at the same time
// would keep each other's links open.
bool ArrangeDescriptors(int output, int link) {
  constexpr int kAboveAll = 10;  // so that no dup3 below closes a descriptor that is still needed
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const std::array<int, kLink + 1> wanted = {null, output, output, link};
  std::array<int, kLink + 1> moved{};
  for (std::size_t i = 0; i < wanted.size(); ++i) moved[i] = ::fcntl(wanted[i], F_DUPFD_CLOEXEC, kAboveAll);
  for (int i = 0; i <= kLink; ++i) {
    if (::dup3(moved[static_cast<std::size_t>(i)], i, i == kLink ? O_CLOEXEC : 0) < 0) return false;
  }
  return ::close_range(kLink + 1, ~0U, 0) == 0;
}

[[noreturn]] void BecomeProgram(const char* path, char* const* arguments, char* const* environment, int output,
                                int link) {
  constexpr int kNeverBegan = 127;
  DefaultSignals();
  ::setsid();
  ::umask(S_IWGRP | S_IWOTH);
  if (::chdir("/") != 0 || !ArrangeDescriptors(output, link)) ::_exit(kNeverBegan);
  char byte = 0;
  if (::read(kLink, &byte, 1) != 1) ::_exit(kNeverBegan);
  ::execve(path, arguments, environment);
  const int error = errno;
  ::send(kLink, &error, sizeof error, MSG_NOSIGNAL);
  ::_exit(kNeverBegan);
}

}  // namespace

HeldChild::HeldChild(pid_t pid, UniqueFd link) : pid_(pid), link_(std::move(link)) {}

HeldChild::~HeldChild() {
  if (!link_.ok()) return;
  link_.reset();
  AwaitChild(pid_);
}

absl::StatusOr<HeldChild> HeldChild::Fork(const ProgramSpec& program) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return ErrnoStatus(errno, "make a socket pair for", program.path);
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const std::vector<char*> arguments = PointersTo(program.arguments);
  const std::vector<char*> environment = PointersTo(program.environment);

  sigset_t all;  // the manager's signal handlers must not run in the child
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    BecomeProgram(program.path.c_str(), arguments.data(), environment.data(), program.output, theirs.get());
  }
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoStatus(error, "fork a process for", program.path);
  return HeldChild(pid, std::move(ours));
}

absl::Status HeldChild::Release() {
  if (::send(link_.get(), "g", 1, MSG_NOSIGNAL) != 1)
    return ErrnoStatus(errno, "release the child process of a plugin");
  int error = 0;
  ssize_t size = 0;
  do {
    size = ::read(link_.get(), &error, sizeof error);
  } while (size < 0 && errno == EINTR);
  if (size == sizeof error) return ErrnoStatus(error, "execute the program");
  link_.reset();  // execve closed the other end
  return absl::OkStatus();
}

}  // namespace mooring::manager
