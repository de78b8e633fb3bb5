// RunInChild: what the child, and a program that it runs, cannot do.
#include "mounter/process/child_call.h"

#include <sys/syscall.h>

#include "base/status.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

struct Refusal {
  const char* name;
  long number;
};

constexpr Refusal kRefused[] = {
    {"acct", SYS_acct},
    {"bpf", SYS_bpf},
    {"clock_settime", SYS_clock_settime},
    {"delete_module", SYS_delete_module},
    {"finit_module", SYS_finit_module},
    {"init_module", SYS_init_module},
#ifdef SYS_iopl
    {"ioperm", SYS_ioperm},
    {"iopl", SYS_iopl},
#endif
    {"kexec_file_load", SYS_kexec_file_load},
    {"kexec_load", SYS_kexec_load},
    {"perf_event_open", SYS_perf_event_open},
    {"pivot_root", SYS_pivot_root},
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
    {"ptrace", SYS_ptrace},
    {"reboot", SYS_reboot},
    {"setns", SYS_setns},
    {"settimeofday", SYS_settimeofday},
    {"swapon", SYS_swapon},
    {"swapoff", SYS_swapoff},
    {"unshare", SYS_unshare},
    {"userfaultfd", SYS_userfaultfd},
};

// With such arguments none of them does anything. Only the filter refuses them with EPERM.
int ErrorOf(const Refusal& call) {
  errno = 0;
  return ::syscall(call.number, -1L, -1L, -1L, -1L, -1L, -1L) < 0 ? errno : 0;
}

TEST(ChildCallTest, TheStateOfTheHostAndOtherProcessesAreOutOfReach) {
  int distinct = 0;
  for (const Refusal& call : kRefused)
    distinct += AskInChild([&] { return std::to_string(ErrorOf(call)); }) == "1" ? 0 : 1;
  EXPECT_GT(distinct, 10) << "without the filter";
  const ChildEnd end = RunInChild("try", std::chrono::seconds(20), [] {
    for (const Refusal& call : kRefused) {
      if (const int error = ErrorOf(call); error != EPERM) return Internal("{}: errno {}", call.name, error);
    }
    return absl::OkStatus();
  });
  EXPECT_OK(end.status);
}

}  // namespace
}  // namespace mooring::testing
