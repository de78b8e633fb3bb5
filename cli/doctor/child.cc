#include "cli/doctor/child.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/child.h"
#include "base/file/unique_fd.h"
#include "base/status.h"

namespace mooring::cli::doctor_area {
namespace {

// A child that hangs in the kernel does not end within that time. init(1) reaps it later.
void KillChild(pid_t child) {
  const UniqueFd pidfd = OpenPidFd(child);
  ::kill(child, SIGKILL);
  if (EndsWithin(pidfd, std::chrono::milliseconds(50))) AwaitChild(child);
}

// Reads until the child has ended, which closes the other end of the pipe.
absl::StatusOr<ChildOutput> ReadAll(int fd, std::chrono::milliseconds patience) {
  ChildOutput output;
  std::array<char, 4096> buffer = {};
  for (;;) {
    pollfd ready = {fd, POLLIN, 0};
    const int events = ::poll(&ready, 1, static_cast<int>(patience.count()));
    if (events < 0 && errno == EINTR) continue;
    if (events < 0) return ErrnoStatus(errno, "wait for a child process");
    output.hung = events == 0;
    if (output.hung) return output;
    const ssize_t size = ::read(fd, buffer.data(), buffer.size());
    if (size < 0) return ErrnoStatus(errno, "read from a child process");
    if (size == 0) return output;
    output.bytes.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace

absl::StatusOr<ChildOutput> ReadFromChild(const std::function<void(int fd)>& work, std::chrono::milliseconds patience) {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe to a child process");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return ErrnoStatus(errno, "make a child process");
  if (child == 0) {
    work(writer.get());
    ::_exit(0);
  }
  writer.reset();
  absl::StatusOr<ChildOutput> output = ReadAll(reader.get(), patience);
  KillChild(child);
  return output;
}

}  // namespace mooring::cli::doctor_area
