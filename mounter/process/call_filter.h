// The system calls that a process may make from now on, seccomp(2): a list of rules, loaded once.
//
// Shared by the plugin (plugin/process/confinement.h) and by the mount helper (mounter/process/helper_calls.h). In
// every such process a system call of a foreign architecture (i386 or x32 on x86-64) ends the whole process: their
// numbers mean other calls.
#ifndef MOORING_MOUNTER_PROCESS_CALL_FILTER_H_
#define MOORING_MOUNTER_PROCESS_CALL_FILTER_H_

#include <seccomp.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>

#include "absl/status/status.h"

namespace mooring {

// Every C++ program with threads and files of its own needs these calls. Sockets and processes are not among them, nor
// are open(2), fcntl(2) and ioctl(2), for which each process has rules of its own. The names are libseccomp's.
std::span<const char* const> BasicCalls();

class CallFilter {
 public:
  // `otherwise`: what happens to a call without a rule (SCMP_ACT_ERRNO(ENOSYS), SCMP_ACT_ALLOW).
  explicit CallFilter(std::uint32_t otherwise);

  // A call that this architecture does not have is left out. The arguments are compared in all 64 bits.
  void Add(std::uint32_t action, const char* call, std::initializer_list<scmp_arg_cmp> arguments = {});
  void AddAll(std::uint32_t action, std::span<const char* const> calls);
  // For calls that are newer than libseccomp: the number, which is the same on every architecture since Linux 5.0.
  void AddNumber(std::uint32_t action, int number, std::initializer_list<scmp_arg_cmp> arguments = {});

  // For good. kOne: for the calling thread, and for what it starts. kAll: for all threads of the process.
  enum class Threads { kOne, kAll };
  absl::Status Load(Threads threads = Threads::kOne);

 private:
  struct Release {
    void operator()(scmp_filter_ctx filter) const { ::seccomp_release(filter); }
  };

  void Note(int error) { error_ = error_ == 0 ? error : error_; }

  std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, Release> filter_;
  int error_ = 0;  // the first one, negative
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_PROCESS_CALL_FILTER_H_
