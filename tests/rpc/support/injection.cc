#include "tests/rpc/support/injection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/file/unique_fd.h"

namespace mooring::testing {
namespace {

constexpr std::uint64_t kBelowStack = 4096, kTextRoom = 256;

std::string MemoryFile(pid_t process) { return "/proc/" + std::to_string(process) + "/mem"; }

}  // namespace

#ifdef __x86_64__

bool Injection::Possible() { return true; }

Injection::Injection(pid_t process, pid_t thread) : process_(process), thread_(thread) {
  instruction_ = FindSyscall();
  EXPECT_NE(instruction_, 0U) << "no system call instruction found";
  if (::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) != 0) {
    ADD_FAILURE() << "ptrace: " << std::strerror(errno);
    return;
  }
  if (::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0 || !Stop()) return;
  ok_ = instruction_ != 0 && ::ptrace(PTRACE_GETREGS, thread_, nullptr, &before_) == 0;
}

// The kernel begins the interrupted call again, because the registers are restored.
Injection::~Injection() {
  if (detached_) return;
  EXPECT_TRUE(!ok_ || ::ptrace(PTRACE_SETREGS, thread_, nullptr, &before_) == 0);
  EXPECT_EQ(::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr), 0);
}

bool Injection::Stop() {
  int status = 0;
  const bool stopped = ::waitpid(thread_, &status, __WALL) == thread_ && WIFSTOPPED(status);
  EXPECT_TRUE(stopped) << "the thread has ended";
  return stopped;
}

std::uint64_t Injection::FindSyscall() const {
  const UniqueFd memory(::open(MemoryFile(process_).c_str(), O_RDONLY | O_CLOEXEC));
  std::ifstream maps("/proc/" + std::to_string(process_) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" r-xp ") == std::string::npos || line.find("libc.so") == std::string::npos) continue;
    std::istringstream range(line);
    std::uint64_t begin = 0, end = 0;
    char dash = 0;
    range >> std::hex >> begin >> dash >> end;
    std::string code(end - begin, '\0');
    const ssize_t got = ::pread(memory.get(), code.data(), code.size(), static_cast<off_t>(begin));
    const std::size_t at = got > 0 ? code.find("\x0f\x05") : std::string::npos;
    if (at != std::string::npos) return begin + at;
  }
  return 0;
}

bool Injection::Write(std::uint64_t address, const std::string& text) const {
  const UniqueFd memory(::open(MemoryFile(process_).c_str(), O_WRONLY | O_CLOEXEC));
  return ::pwrite(memory.get(), text.c_str(), text.size() + 1, static_cast<off_t>(address)) ==
         static_cast<ssize_t>(text.size() + 1);
}

std::int64_t Injection::Call(long number, const std::array<Argument, 6>& arguments) {
  user_regs_struct registers = before_;
  std::array<std::uint64_t, 6> values = {};
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = arguments[i].number;
    if (!arguments[i].is_text) continue;
    values[i] = before_.rsp - kBelowStack + i * kTextRoom;
    EXPECT_TRUE(Write(values[i], arguments[i].text));
  }
  registers.rdi = values[0];
  registers.rsi = values[1];
  registers.rdx = values[2];
  registers.r10 = values[3];
  registers.r8 = values[4];
  registers.r9 = values[5];
  registers.rax = static_cast<std::uint64_t>(number);
  registers.orig_rax = ~0ULL;  // the kernel must not begin the old call again
  registers.rip = instruction_;
  EXPECT_EQ(::ptrace(PTRACE_SETREGS, thread_, nullptr, &registers), 0);
  EXPECT_EQ(::ptrace(PTRACE_SINGLESTEP, thread_, nullptr, nullptr), 0);
  if (!Stop() || ::ptrace(PTRACE_GETREGS, thread_, nullptr, &registers) != 0) return -ESRCH;
  EXPECT_EQ(registers.rip, instruction_ + 2) << "the thread has not made the call";
  return static_cast<std::int64_t>(registers.rax);
}

void Injection::LastCall(pid_t process, pid_t thread, long number) {
  Injection last(process, thread);
  ASSERT_TRUE(last.ok());
  user_regs_struct registers = last.before_;
  registers.rax = static_cast<std::uint64_t>(number);
  registers.orig_rax = ~0ULL;  // the kernel must not begin the old call again
  registers.rip = last.instruction_;
  EXPECT_EQ(::ptrace(PTRACE_SETREGS, thread, nullptr, &registers), 0);
  EXPECT_EQ(::ptrace(PTRACE_DETACH, thread, nullptr, nullptr), 0);
  last.detached_ = true;
}

#else

bool Injection::Possible() { return false; }
Injection::Injection(pid_t process, pid_t thread) : process_(process), thread_(thread) {}
Injection::~Injection() = default;
void Injection::LastCall(pid_t, pid_t, long) {}
std::int64_t Injection::Call(long, const std::array<Argument, 6>&) { return -ENOSYS; }

#endif

}  // namespace mooring::testing
