#include "mounter/mount_table.h"

#include <fmt/format.h>
#include <libmount/libmount.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>

#include "base/path.h"
#include "base/quote.h"
#include "base/status.h"
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

// "shared:12 master:3" -> 12 for "shared:".
std::uint64_t GroupAfter(std::string_view fields, std::string_view key) {
  const std::size_t at = fields.find(key);
  std::uint64_t group = 0;
  if (at != std::string_view::npos)
    std::from_chars(fields.data() + at + key.size(), fields.data() + fields.size(), group);
  return group;
}

std::string_view Text(const char* text) { return text == nullptr ? std::string_view() : std::string_view(text); }

bool HasOption(std::string_view options, std::string_view name) {
  return fmt::format(",{},", options).find(fmt::format(",{},", name)) != std::string::npos;
}

MountInfo FromLibmount(libmnt_fs* fs) {
  const std::string_view options = Text(mnt_fs_get_vfs_options(fs));
  const std::string_view fields = Text(mnt_fs_get_optional_fields(fs));
  MountInfo info;
  info.id = static_cast<std::uint64_t>(mnt_fs_get_id(fs));
  info.target = Text(mnt_fs_get_target(fs));
  info.root = Text(mnt_fs_get_root(fs));
  info.fs_type = Text(mnt_fs_get_fstype(fs));
  info.device = mnt_fs_get_devno(fs);
  info.flags.read_only = HasOption(options, "ro");
  info.flags.nosuid = HasOption(options, "nosuid");
  info.flags.nodev = HasOption(options, "nodev");
  info.flags.noexec = HasOption(options, "noexec");
  info.flags.nodiratime = HasOption(options, "nodiratime");
  if (HasOption(options, "noatime")) {
    info.flags.atime = Atime::kNoatime;
  } else if (!HasOption(options, "relatime")) {
    info.flags.atime = Atime::kStrictatime;
  }
  info.superblock_read_only = HasOption(Text(mnt_fs_get_fs_options(fs)), "ro");
  info.peer_group = GroupAfter(fields, "shared:");
  info.master = GroupAfter(fields, "master:");
  return info;
}

// The whole table, in its own order.
absl::StatusOr<std::vector<MountInfo>> ReadTable() {
  constexpr char kFile[] = "/proc/self/mountinfo";
  const std::unique_ptr<libmnt_table, void (*)(libmnt_table*)> table(mnt_new_table_from_file(kFile), mnt_unref_table);
  if (table == nullptr) return ErrnoStatus(errno, "read", kFile);
  const std::unique_ptr<libmnt_iter, void (*)(libmnt_iter*)> at(mnt_new_iter(MNT_ITER_FORWARD), mnt_free_iter);
  std::vector<MountInfo> mounts;
  libmnt_fs* fs = nullptr;
  while (at != nullptr && mnt_table_next_fs(table.get(), at.get(), &fs) == 0) mounts.push_back(FromLibmount(fs));
  return mounts;
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
