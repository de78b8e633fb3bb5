// Makes a thread of another process execute system calls, with ptrace(2). Works on x86-64 only. The thread usually
// waits in the kernel. It makes the calls and then waits again.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <array>
#include <cstdint>
#include <string>

namespace mooring::testing {

class Injection {
 public:
  static bool Possible();  // on this architecture

  Injection(pid_t process, pid_t thread);  // stops the thread; a failure is a failure of the test
  Injection(const Injection&) = delete;
  Injection& operator=(const Injection&) = delete;
  ~Injection();  // lets the thread continue

  bool ok() const { return ok_; }

  // A number, or a text of at most 200 bytes that is written to the process's memory.
  struct Argument {
    Argument() = default;
    Argument(std::uint64_t value) : number(value) {}
    Argument(int value) : number(static_cast<std::uint64_t>(value)) {}
    Argument(const char* value) : text(value), is_text(true) {}
    Argument(const std::string& value) : text(value), is_text(true) {}
    std::uint64_t number = 0;
    std::string text;
    bool is_text = false;
  };

  // Makes a call without arguments that ends the thread or the process.
  static void LastCall(pid_t process, pid_t thread, long number);

  // Returns the result of the kernel: -errno if the call fails.
  std::int64_t Call(long number, const std::array<Argument, 6>& arguments);

 private:
  bool Stop();
  std::uint64_t FindSyscall() const;  // the address of a syscall instruction in the process
  bool Write(std::uint64_t address, const std::string& text) const;

  const pid_t process_, thread_;
  bool ok_ = false, detached_ = false;
  std::uint64_t instruction_ = 0;
  user_regs_struct before_ = {};
};

}  // namespace mooring::testing
