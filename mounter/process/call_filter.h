// Builds and loads a filter for the system calls of a process, seccomp(2).
//
// The plugin (plugin/process/confinement.h) and the mount helper (mounter/process/helper_calls.h) use it. In every such
// process a system call of a foreign architecture (i386 or x32 on x86-64) kills the process. The same number means
// another call there.
#pragma once

#include <seccomp.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>

#include "absl/status/status.h"

namespace mooring {

// The calls that every C++ program with threads and files needs. Each process adds its own rules for sockets,
// processes, open(2), fcntl(2) and ioctl(2). The names are libseccomp's.
std::span<const char* const> BasicCalls();

class CallFilter {
 public:
  // `otherwise`: the action for a call without a rule (SCMP_ACT_ERRNO(ENOSYS), SCMP_ACT_ALLOW).
  explicit CallFilter(std::uint32_t otherwise);

  // Skips a call that this architecture does not have. Arguments are compared in all 64 bits.
  void Add(std::uint32_t action, const char* call, std::initializer_list<scmp_arg_cmp> arguments = {});
  void AddAll(std::uint32_t action, std::span<const char* const> calls);
  // For calls that libseccomp does not know yet. Since Linux 5.0 a number is the same on every architecture.
  void AddNumber(std::uint32_t action, int number, std::initializer_list<scmp_arg_cmp> arguments = {});

  // Permanent. kOne: for the calling thread and everything that it starts. kAll: for all threads of the process.
  enum class Threads { kOne, kAll };
  absl::Status Load(Threads threads = Threads::kOne);

 private:
  struct Release {
    void operator()(scmp_filter_ctx filter) const { ::seccomp_release(filter); }
  };

  void Note(int error) { error_ = error_ == 0 ? error : error_; }

  std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, Release> filter_;
  int error_ = 0;  // of the first failed call, as a negative errno
};

}  // namespace mooring
