#include "mounter/sys/kernel_features.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>

#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

std::atomic<bool>& Missing(KernelFeature feature) {
  static std::array<std::atomic<bool>, 2> missing = {};
  return missing[static_cast<std::size_t>(feature)];
}

// After a call whose arguments no kernel takes. Who may not mount is told EPERM by the kernel itself.
bool SaysMissing() { return errno == ENOSYS || (errno == EPERM && sys::HasCapability(CAP_SYS_ADMIN)); }

bool LacksOpenAt2() {
  ::syscall(SYS_openat2, -1, nullptr, nullptr, std::size_t{0});
  return errno == ENOSYS || errno == EPERM;
}

bool LacksMountApi() {
  constexpr unsigned kNoSuchFlags = ~0U;
  ::syscall(SYS_mount_setattr, -1, nullptr, 0U, nullptr, std::size_t{0});
  if (SaysMissing()) return true;
  ::syscall(SYS_open_tree, -1, nullptr, kNoSuchFlags);
  if (SaysMissing()) return true;
  ::syscall(SYS_move_mount, -1, nullptr, -1, nullptr, kNoSuchFlags);
  if (SaysMissing()) return true;
  ::syscall(SYS_fsopen, nullptr, kNoSuchFlags);
  if (SaysMissing()) return true;
  ::syscall(SYS_fsconfig, -1, kNoSuchFlags, nullptr, nullptr, 0);
  if (SaysMissing()) return true;
  ::syscall(SYS_fsmount, -1, kNoSuchFlags, 0U);
  return SaysMissing();
}

bool Ask(KernelFeature feature) {
  switch (feature) {
    case KernelFeature::kOpenAt2:
      return LacksOpenAt2();
    case KernelFeature::kMountApi:
      return LacksMountApi();
  }
  return false;
}

}  // namespace

bool IsKnownMissing(KernelFeature feature) { return Missing(feature).load(std::memory_order_relaxed); }

bool TurnsOutMissing(KernelFeature feature) {
  const int error = errno;
  const bool missing = Ask(feature);
  if (missing) Missing(feature).store(true, std::memory_order_relaxed);
  errno = error;
  return missing;
}

}  // namespace mooring
