#include "mounter/mount_table.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/path.h"
#include "base/status.h"
#include "mounter/mount_info_file.h"
#include "mounter/syscalls.h"

namespace mooring {
namespace {

constexpr std::uint64_t kListRoot = ~std::uint64_t{0};  // LSMT_ROOT: everything this process can reach

MountFlags FlagsOfAttributes(std::uint64_t attributes) {
  MountFlags flags;
  flags.read_only = (attributes & MOUNT_ATTR_RDONLY) != 0;
  flags.nosuid = (attributes & MOUNT_ATTR_NOSUID) != 0;
  flags.nodev = (attributes & MOUNT_ATTR_NODEV) != 0;
  flags.noexec = (attributes & MOUNT_ATTR_NOEXEC) != 0;
  flags.nodiratime = (attributes & MOUNT_ATTR_NODIRATIME) != 0;
  if ((attributes & MOUNT_ATTR__ATIME) == MOUNT_ATTR_NOATIME) flags.atime = Atime::kNoatime;
  if ((attributes & MOUNT_ATTR__ATIME) == MOUNT_ATTR_STRICTATIME) flags.atime = Atime::kStrictatime;
  return flags;
}

// Room for the fixed part and three strings of PATH_MAX; most answers are far shorter.
struct StatMountBuffer {
  alignas(sys::StatMount) std::array<char, 512 + 3 * 4096> bytes;
  const sys::StatMount& head() const { return *reinterpret_cast<const sys::StatMount*>(bytes.data()); }
  std::string Text(std::uint64_t bit, std::uint32_t offset) const {
    return (head().mask & bit) != 0 ? std::string(bytes.data() + sizeof(sys::StatMount) + offset) : std::string();
  }
};

// Seccomp profiles older than these calls answer EPERM in the place of ENOSYS.
absl::Status AskError(const std::string& operation) { return ErrnoStatus(errno == EPERM ? ENOSYS : errno, operation); }

absl::StatusOr<MountInfo> AskKernel(std::uint64_t id) {
  StatMountBuffer buffer;
  constexpr std::uint64_t kMask = sys::kStatMountSbBasic | sys::kStatMountMntBasic | sys::kStatMountMntRoot |
                                  sys::kStatMountMntPoint | sys::kStatMountFsType;
  if (sys::StatMountById(id, kMask, buffer.bytes.data(), buffer.bytes.size()) != 0) {
    return AskError(fmt::format("statmount of mount {}", id));
  }
  const sys::StatMount& head = buffer.head();
  MountInfo info;
  info.id = id;
  info.target = buffer.Text(sys::kStatMountMntPoint, head.mnt_point);
  info.root = buffer.Text(sys::kStatMountMntRoot, head.mnt_root);
  info.fs_type = buffer.Text(sys::kStatMountFsType, head.fs_type);
  info.device = makedev(head.sb_dev_major, head.sb_dev_minor);
  info.flags = FlagsOfAttributes(head.mnt_attr);
  info.superblock_read_only = (head.sb_flags & MS_RDONLY) != 0;
  info.peer_group = head.mnt_peer_group;
  info.master = head.mnt_master;
  return info;
}

// The whole table, in its own order.
absl::StatusOr<std::vector<MountInfo>> ReadTable() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<TableMount> table, ReadMountInfo("/proc/self/mountinfo"));
  return std::vector<MountInfo>(table.begin(), table.end());
}

absl::StatusOr<std::vector<std::uint64_t>> AllIds() {
  std::vector<std::uint64_t> ids;
  std::array<std::uint64_t, 512> chunk = {};
  for (;;) {
    const ssize_t got = sys::ListMount(kListRoot, ids.empty() ? 0 : ids.back(), chunk.data(), chunk.size());
    if (got < 0) return AskError("listmount");
    ids.insert(ids.end(), chunk.begin(), chunk.begin() + got);
    if (static_cast<std::size_t>(got) < chunk.size()) return ids;
  }
}

absl::StatusOr<std::vector<MountInfo>> AskKernelForAll() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> ids, AllIds());
  std::vector<MountInfo> mounts;
  mounts.reserve(ids.size());
  for (const std::uint64_t id : ids) {
    absl::StatusOr<MountInfo> info = AskKernel(id);
    if (absl::IsNotFound(info.status())) continue;  // unmounted meanwhile
    if (!info.ok()) return info.status();
    mounts.push_back(*std::move(info));
  }
  return mounts;
}

}  // namespace

absl::StatusOr<MountInfo> LookUpMount(std::uint64_t id, bool unique) {
  if (unique) return AskKernel(id);
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, ReadTable());
  const auto found = std::find_if(mounts.begin(), mounts.end(), [id](const MountInfo& info) { return info.id == id; });
  if (found == mounts.end()) return NotFound(fmt::format("mount {} is not in this mount namespace", id));
  return *found;
}

absl::StatusOr<std::vector<MountInfo>> ListMounts(const std::string& path) {
  absl::StatusOr<std::vector<MountInfo>> mounts = AskKernelForAll();
  if (absl::IsUnimplemented(mounts.status())) mounts = ReadTable();
  if (!mounts.ok()) return mounts.status();
  std::erase_if(*mounts, [&](const MountInfo& info) { return !IsBelow(info.target, path); });
  // The kernel lists them in the order they were made; one that was moved can be older than what it was moved to.
  std::stable_sort(mounts->begin(), mounts->end(), [](const auto& a, const auto& b) { return a.target < b.target; });
  return mounts;
}

std::string FilesystemOptions(std::uint64_t id) {
  StatMountBuffer buffer;
  if (sys::StatMountById(id, sys::kStatMountMntOpts, buffer.bytes.data(), buffer.bytes.size()) != 0) return "";
  return buffer.Text(sys::kStatMountMntOpts, buffer.head().mnt_opts);
}

}  // namespace mooring
