#include "mounter/table/mount_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <map>
#include <utility>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/target.h"
#include "mounter/sys/device_name.h"
#include "mounter/sys/syscalls.h"
#include "mounter/table/known_memory.h"
#include "mounter/table/mount_info_file.h"

namespace mooring {
namespace {

constexpr std::uint64_t kListRoot = ~std::uint64_t{0};  // LSMT_ROOT: everything this process can reach

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

struct Answer {
  ListedMount info;
  std::uint64_t table_id = 0;  // mountinfo's, when source and device have to be read there, else 0
};

// The source of a tmpfs says which volume it is, and the source of NFS the mounted directory. A btrfs has a device
// number of its own, so its device is found by the kernel's name for it. Only a scan by root could change that name, to
// another one of the same device.
void FindSource(Answer& answer, const sys::StatMount& head) {
  StatMountBuffer buffer;
  const bool is_btrfs = answer.info.fs_type == "btrfs";
  if (!is_btrfs && answer.info.fs_type != "tmpfs" && !answer.info.fs_type.starts_with("nfs")) return;
  answer.table_id = head.mnt_id_old;
  if (sys::StatMountById(answer.info.id, sys::kStatMountSbSource, buffer.bytes.data(), buffer.bytes.size()) != 0)
    return;
  if ((buffer.head().mask & sys::kStatMountSbSource) == 0) return;  // Linux before 6.13
  answer.info.source = buffer.Text(sys::kStatMountSbSource, buffer.head().sb_source);
  FindNfsRoot(answer.info);
  if (is_btrfs) answer.info.device = DeviceNamed(answer.info.source).value_or(answer.info.device);
  answer.table_id = 0;
}

absl::StatusOr<Answer> AskKernel(std::uint64_t id) {
  StatMountBuffer buffer;
  constexpr std::uint64_t kMask = sys::kStatMountSbBasic | sys::kStatMountMntBasic | sys::kStatMountMntRoot |
                                  sys::kStatMountMntPoint | sys::kStatMountFsType;
  if (sys::StatMountById(id, kMask, buffer.bytes.data(), buffer.bytes.size()) != 0) {
    return AskError(fmt::format("statmount of mount {}", id));
  }
  const sys::StatMount& head = buffer.head();
  Answer answer;
  ListedMount& info = answer.info;
  info.id = id;
  info.target = buffer.Text(sys::kStatMountMntPoint, head.mnt_point);
  info.root = buffer.Text(sys::kStatMountMntRoot, head.mnt_root);
  info.fs_type = buffer.Text(sys::kStatMountFsType, head.fs_type);
  info.device = makedev(head.sb_dev_major, head.sb_dev_minor);
  info.flags = FlagsOfAttributes(head.mnt_attr);
  info.superblock_read_only = (head.sb_flags & MS_RDONLY) != 0;
  info.ids_mapped = (head.mnt_attr & MOUNT_ATTR_IDMAP) != 0;
  info.lazytime = (head.sb_flags & MS_LAZYTIME) != 0;
  info.peer_group = head.mnt_peer_group;
  info.master = head.mnt_master;
  FindSource(answer, head);
  return answer;
}

// The whole table, in its own order.
absl::StatusOr<std::vector<ListedMount>> ReadTable() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<TableMount> table, ReadMountInfo("/proc/self/mountinfo"));
  return std::vector<ListedMount>(table.begin(), table.end());
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

// Adds the sources and devices that statmount(2) did not tell, from mountinfo.
absl::StatusOr<std::vector<ListedMount>> Completed(std::vector<Answer> answers) {
  const auto lacks = [](const Answer& answer) { return answer.table_id != 0; };
  std::map<std::uint64_t, ListedMount> told;
  if (std::any_of(answers.begin(), answers.end(), lacks)) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> table, ReadTable());
    for (const ListedMount& info : table) told[info.id] = info;
  }
  std::vector<ListedMount> mounts;
  mounts.reserve(answers.size());
  for (Answer& answer : answers) {
    const auto found = lacks(answer) ? told.find(answer.table_id) : told.end();
    if (found != told.end()) {
      answer.info.device = found->second.device;
      answer.info.source = found->second.source;
      FindNfsRoot(answer.info);
    }
    mounts.push_back(std::move(answer.info));
  }
  return mounts;
}

absl::StatusOr<std::vector<ListedMount>> AskKernelForAll() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> ids, AllIds());
  std::vector<Answer> answers;
  answers.reserve(ids.size());
  for (const std::uint64_t id : ids) {
    absl::StatusOr<Answer> answer = AskKernel(id);
    if (absl::IsNotFound(answer.status())) continue;  // unmounted meanwhile
    if (!answer.ok()) return answer.status();
    answers.push_back(*std::move(answer));
  }
  return Completed(std::move(answers));
}

absl::StatusOr<ListedMount> AskKernelForOne(std::uint64_t id) {
  MOORING_ASSIGN_OR_RETURN(Answer answer, AskKernel(id));
  if (answer.table_id == 0) return std::move(answer.info);
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> completed, Completed({std::move(answer)}));
  return completed.front();
}

bool IsInScratch(const ListedMount& mount) {
  return std::any_of(std::begin(kScratchBases), std::end(kScratchBases),
                     [&](const char* base) { return IsBelow(mount.target, base); });
}

}  // namespace

absl::StatusOr<ListedMount> LookUpMount(std::uint64_t id, bool unique) {
  if (unique) return AskKernelForOne(id);
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, ReadTable());
  const auto found =
      std::find_if(mounts.begin(), mounts.end(), [id](const ListedMount& info) { return info.id == id; });
  if (found == mounts.end()) return NotFound("mount {} is not in this mount namespace", id);
  return *found;
}

absl::StatusOr<std::vector<ListedMount>> ListMounts(const std::string& path) {
  absl::StatusOr<std::vector<ListedMount>> mounts = AskKernelForAll();
  if (absl::IsUnimplemented(mounts.status())) mounts = ReadTable();
  if (!mounts.ok()) return mounts.status();
  std::erase_if(*mounts, [&](const ListedMount& info) { return !IsBelow(info.target, path) || IsInScratch(info); });
  // The kernel lists mounts in the order they were made, and a moved mount can be older than its new parent.
  std::stable_sort(mounts->begin(), mounts->end(), [](const auto& a, const auto& b) { return a.target < b.target; });
  return mounts;
}

absl::StatusOr<ListedMount> AskForMountOf(const UniqueFd& file, const std::string& path) {
  struct statx status = {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (::statx(file.get(), "", flags, sys::kStatxMntIdUnique, &status) != 0) return ErrnoStatus(errno, "look at", path);
  if ((status.stx_mask & sys::kStatxMntIdUnique) != 0) return LookUpMount(status.stx_mnt_id, true);
  return absl::UnimplementedError("statx(2) gives no unique id of a mount");
}

absl::StatusOr<ListedMount> LookUpMountOf(const UniqueFd& file, const std::string& path) {
  absl::StatusOr<ListedMount> info = AskForMountOf(file, path);
  if (!absl::IsUnimplemented(info.status())) return info;
  const std::optional<std::uint64_t> id = TableMountIdOf(file);
  if (!id) return FailedPrecondition("/proc does not tell which mount a file is on: is it mounted here?");
  info = LookUpMount(*id, false);
  if (info.ok() && info->fs_type == "tmpfs" && info->root == "/") RememberMemory(file, info->source);
  return info;
}

absl::Status CheckNothingMountedBelow(const std::string& directory) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, ListMounts(directory));
  if (mounts.empty()) return absl::OkStatus();
  return FailedPrecondition("{} is mounted at {}: unmount it before {} is removed", mounts.front().fs_type,
                            Quote(mounts.front().target), Quote(directory));
}

std::string FilesystemOptions(std::uint64_t id) {
  StatMountBuffer buffer;
  if (sys::StatMountById(id, sys::kStatMountMntOpts, buffer.bytes.data(), buffer.bytes.size()) != 0) return "";
  return buffer.Text(sys::kStatMountMntOpts, buffer.head().mnt_opts);
}

}  // namespace mooring
