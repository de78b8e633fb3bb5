#include "mounter/sys/syscalls.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace mooring::sys {
namespace {

// The same numbers on x86-64 and on every architecture with the generic table.
constexpr long kQuotaCtlFdNumber = 443;
constexpr long kCacheStatNumber = 451;
constexpr long kStatMountNumber = 457;
constexpr long kListMountNumber = 458;

struct MountIdRequest {
  std::uint32_t size, spare;
  std::uint64_t mnt_id, param;
};
static_assert(sizeof(MountIdRequest) == 24, "MNT_ID_REQ_SIZE_VER0");

}  // namespace

int PidFdSendSignal(int process, int signal) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0U));
}

bool HasCapability(unsigned capability) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data = {};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return true;
  return (data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability)) != 0;
}

int QuotaCtlFd(int fd, unsigned command, unsigned id, void* data) {
  return static_cast<int>(::syscall(kQuotaCtlFdNumber, fd, command, id, data));
}

ssize_t CountCachedPages(int fd, std::uint64_t offset, std::uint64_t size) {
  const std::array range = {offset, size};
  std::array<std::uint64_t, 5> found = {};  // the first one counts cached pages, the others dirty and evicted ones
  return ::syscall(kCacheStatNumber, fd, range.data(), found.data(), 0U) == 0 ? static_cast<ssize_t>(found[0]) : -1;
}

int OpenAt2(int dirfd, const char* path, const open_how& how) {
  return static_cast<int>(::syscall(SYS_openat2, dirfd, path, &how, sizeof(how)));
}

int StatMountById(std::uint64_t mount_id, std::uint64_t mask, void* buffer, std::size_t size) {
  const MountIdRequest request = {sizeof(MountIdRequest), 0, mount_id, mask};
  return static_cast<int>(::syscall(kStatMountNumber, &request, buffer, size, 0U));
}

ssize_t ListMount(std::uint64_t mount_id, std::uint64_t after, std::uint64_t* ids, std::size_t count) {
  const MountIdRequest request = {sizeof(MountIdRequest), 0, mount_id, after};
  return ::syscall(kListMountNumber, &request, ids, count, 0U);
}

}  // namespace mooring::sys
