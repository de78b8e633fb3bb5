#include "tests/kernel/mount/namespaces.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "mounter/mount/scratch.h"

namespace mooring::testing {
namespace {

struct Pipe {
  UniqueFd reader, writer;
};

Pipe MakePipe() {
  std::array<int, 2> ends = {-1, -1};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::string ReadAll(const UniqueFd& fd) {
  std::string text;
  std::array<char, 4096> chunk = {};
  for (ssize_t got = 0; (got = ::read(fd.get(), chunk.data(), chunk.size())) > 0;) {
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

void WriteAll(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t put = ::write(fd, text.data() + at, text.size() - at);
    if (put <= 0) return;
    at += static_cast<std::size_t>(put);
  }
}

int WaitFor(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

unsigned long FlagsOf(MountNamespace::Kind kind) {
  switch (kind) {
    case MountNamespace::Kind::kPeer:
      return 0;
    case MountNamespace::Kind::kSlave:
      return MS_REC | MS_SLAVE;
    case MountNamespace::Kind::kPrivate:
      return MS_REC | MS_PRIVATE;
  }
  return 0;
}

// The child's side: a namespace of its own, then sleep until the parent ends it, or ends.
[[noreturn]] void HoldNamespace(MountNamespace::Kind kind, int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const unsigned long flags = FlagsOf(kind);
  const bool made = ::unshare(CLONE_NEWNS) == 0 && (flags == 0 || ::mount("none", "/", nullptr, flags, nullptr) == 0);
  WriteAll(ready, made ? "ready" : "failed");
  ::close(ready);
  for (;;) ::pause();
}

}  // namespace

std::string AskInChild(const std::function<std::string()>& question) {
  Pipe answer = MakePipe();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(20);
    WriteAll(answer.writer.get(), question());
    RemoveScratch();
    ::_exit(0);
  }
  answer.writer.reset();
  std::string text = ReadAll(answer.reader);
  const int status = WaitFor(pid);
  return WIFSIGNALED(status) ? fmt::format("killed by signal {}", WTERMSIG(status)) : text;
}

MountNamespace::MountNamespace(Kind kind) {
  Pipe ready = MakePipe();
  pid_ = ::fork();
  if (pid_ == 0) HoldNamespace(kind, ready.writer.release());
  ready.writer.reset();
  EXPECT_EQ(ReadAll(ready.reader), "ready");
  namespace_.reset(::open(fmt::format("/proc/{}/ns/mnt", pid_).c_str(), O_RDONLY | O_CLOEXEC));
}

MountNamespace::~MountNamespace() {
  ::kill(pid_, SIGKILL);
  WaitFor(pid_);
}

std::string MountNamespace::Ask(const std::function<std::string()>& question) const {
  return AskInChild(
      [&] { return ::setns(namespace_.get(), CLONE_NEWNS) == 0 ? question() : std::string("cannot enter"); });
}

std::string MountNamespace::Seen(const std::string& path) const { return fmt::format("/proc/{}/root{}", pid_, path); }

}  // namespace mooring::testing
