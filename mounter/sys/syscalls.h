// System calls without a wrapper in glibc 2.36. They return -1 and set errno; ENOSYS on kernels without them.
#pragma once

#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace mooring::sys {

int PidFdSendSignal(int process, int signal);  // glibc 2.36 declares it for C only

bool HasCapability(unsigned capability);  // in the effective set; true if the kernel does not say

int QuotaCtlFd(int fd, unsigned command, unsigned id, void* data);  // Linux 5.14

// cachestat(2), Linux 6.5: the number of pages of this part of the file that are in the page cache.
ssize_t CountCachedPages(int fd, std::uint64_t offset, std::uint64_t size);

int OpenAt2(int dirfd, const char* path, const open_how& how);

// The fixed part of the answer of statmount(2), Linux 6.8. The strings follow it, at the offsets that it holds.
struct StatMount {
  std::uint32_t size, mnt_opts;
  std::uint64_t mask;
  std::uint32_t sb_dev_major, sb_dev_minor;
  std::uint64_t sb_magic;
  std::uint32_t sb_flags, fs_type;
  std::uint64_t mnt_id, mnt_parent_id;
  std::uint32_t mnt_id_old, mnt_parent_id_old;
  std::uint64_t mnt_attr, mnt_propagation, mnt_peer_group, mnt_master, propagate_from;
  std::uint32_t mnt_root, mnt_point;
  std::uint64_t mnt_ns_id;
  std::uint32_t fs_subtype, sb_source;
  std::uint64_t reserved[48];
};

inline constexpr std::uint64_t kStatMountSbBasic = 0x1, kStatMountMntBasic = 0x2, kStatMountMntRoot = 0x8,
                               kStatMountMntPoint = 0x10, kStatMountFsType = 0x20,
                               kStatMountMntOpts = 0x80,  // Linux 6.11
    kStatMountSbSource = 0x200;                           // 6.13

int StatMountById(std::uint64_t mount_id, std::uint64_t mask, void* buffer, std::size_t size);

// listmount(2), Linux 6.8: writes the ids above `after` of the children of a mount. Returns how many it wrote.
ssize_t ListMount(std::uint64_t mount_id, std::uint64_t after, std::uint64_t* ids, std::size_t count);

inline constexpr std::uint32_t kStatxMntId = 0x1000, kStatxMntIdUnique = 0x4000;
inline constexpr std::uint64_t kStatxAttrMountRoot = 0x2000;

}  // namespace mooring::sys
