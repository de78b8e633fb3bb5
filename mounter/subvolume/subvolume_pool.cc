#include "mounter/subvolume/subvolume_pool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>

#include "base/file/directory.h"
#include "base/file/file_lock.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/target.h"
#include "mounter/subvolume/inner_subvolumes.h"
#include "mounter/subvolume/tree_search.h"

namespace mooring {
namespace {

constexpr int kAttempts = 100;                    // while a tenant makes members of a group
constexpr std::chrono::seconds kPatience{5};      // for another call
constexpr std::uint64_t kEnableSimpleQuotas = 4;  // BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA, Linux 6.7

// struct btrfs_qgroup_inherit with one group.
struct Inherit {
  std::uint64_t flags = 0, count = 1, reference_copies = 0, exclusive_copies = 0;
  btrfs_qgroup_limit limit = {};
  std::uint64_t group = 0;
};
static_assert(sizeof(Inherit) == sizeof(btrfs_qgroup_inherit) + sizeof(std::uint64_t));

}  // namespace

absl::StatusOr<SubvolumePool> SubvolumePool::Open(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(UniqueFd directory, OpenNoSymlinks(path, O_RDONLY | O_DIRECTORY));
  MOORING_RETURN_IF_ERROR(CheckIsTopOfBtrfs(directory, path));
  return SubvolumePool(std::move(directory), path);
}

absl::Status SubvolumePool::Failed(int error, const std::string& operation) const {
  if (error == ENOTCONN) {
    return FailedPrecondition("{} in {}: the quotas of this btrfs were turned off (btrfs quota disable)", operation,
                              Quote(path_));
  }
  return ErrnoStatus(error, operation + " in", path_);
}

// A byte of the file for each. They are taken in their order, so that no two calls wait for each other.
absl::StatusOr<UniqueFd> SubvolumePool::Lock(const std::vector<std::string>& names) const {
  const std::string name(kLockName);
  UniqueFd file(::openat(directory_.get(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.ok()) return Failed(errno, fmt::format("open {}", name));
  std::map<std::uint64_t, std::string> bytes;
  for (const std::string& each : names) bytes[GroupNumberOf(each)] = path_ + "/" + each;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (const auto& [byte, path] : bytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    MOORING_RETURN_IF_ERROR(LockByte(file, static_cast<off_t>(byte), path, left));
  }
  return file;
}

absl::StatusOr<bool> SubvolumePool::Has(const std::string& name) const {
  struct stat status = {};
  if (::fstatat(directory_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? absl::StatusOr<bool>(false) : ErrnoStatus(errno, "look at", path_ + "/" + name);
  }
  if (S_ISDIR(status.st_mode) && status.st_ino == BTRFS_FIRST_FREE_OBJECTID) return true;
  return FailedPrecondition("{} in {} is no subvolume: it is left alone", Quote(name), Quote(path_));
}

absl::Status SubvolumePool::MakeIn(const UniqueFd& directory, const Draft& draft) const {
  btrfs_ioctl_vol_args_v2 args = {};
  Inherit inherit = {.group = QuotaGroupId(draft.group)};
  if (draft.name.size() >= sizeof(args.name)) return InvalidArgument("{} is too long", Quote(draft.name, 64));
  draft.name.copy(args.name, draft.name.size());
  if (draft.read_only) args.flags |= BTRFS_SUBVOL_RDONLY;
  if (draft.group != 0) {
    args.flags |= BTRFS_SUBVOL_QGROUP_INHERIT;
    args.size = sizeof(inherit);
    args.qgroup_inherit = reinterpret_cast<btrfs_qgroup_inherit*>(&inherit);
  }
  UniqueFd source;
  if (!draft.source.empty()) {
    source = OpenDirectoryBelow(directory_, draft.source);
    if (!source.ok()) return ErrnoStatus(errno, "open the subvolume", path_ + "/" + draft.source);
    args.fd = source.get();
  }
  const unsigned long call = draft.source.empty() ? BTRFS_IOC_SUBVOL_CREATE_V2 : BTRFS_IOC_SNAP_CREATE_V2;
  if (::ioctl(directory.get(), call, &args) != 0) {
    return Failed(errno, fmt::format("make the subvolume {}", Quote(draft.name)));
  }
  if (draft.group == 0) return absl::OkStatus();
  // Older kernels ignore a group that does not exist. Then the subvolume would have no limit.
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd made(::openat(directory.get(), draft.name.c_str(), kFlags));
  if (!made.ok()) return Failed(errno, fmt::format("open the subvolume {}", Quote(draft.name)));
  return mooring::CheckIsMember(made, path_ + "/" + draft.name, draft.group);
}

absl::Status SubvolumePool::MakePlaceApart(const std::string& name) const {
  const std::string apart = name + std::string(kMakingEnd);
  if (::mkdirat(directory_.get(), apart.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return Failed(errno, fmt::format("make the directory {}", Quote(apart)));
}

absl::Status SubvolumePool::MakeApart(const Draft& draft) const {
  const std::string apart = draft.name + std::string(kMakingEnd);
  const UniqueFd directory = OpenDirectoryBelow(directory_, apart);
  if (!directory.ok()) return Failed(errno, fmt::format("open the directory {}", Quote(apart)));
  Draft writable = draft;
  writable.read_only = false;
  return MakeIn(directory, writable);
}

// The kernel does not move a read-only subvolume. Nobody has it mounted yet, so nobody writes to it before.
absl::Status SubvolumePool::Show(const Draft& draft) const {
  const int here = directory_.get();
  const std::string apart = draft.name + std::string(kMakingEnd), made = apart + "/" + draft.name;
  if (::renameat2(here, made.c_str(), here, draft.name.c_str(), RENAME_NOREPLACE) != 0) {
    return Failed(errno, fmt::format("move the subvolume {}", Quote(made)));
  }
  if (!draft.read_only) return absl::OkStatus();
  const UniqueFd subvolume = OpenDirectoryBelow(directory_, draft.name);
  const std::uint64_t flags = BTRFS_SUBVOL_RDONLY;
  if (subvolume.ok() && ::ioctl(subvolume.get(), BTRFS_IOC_SUBVOL_SETFLAGS, &flags) == 0) return absl::OkStatus();
  return Failed(errno, fmt::format("make read-only the subvolume {}", Quote(draft.name)));
}

absl::Status SubvolumePool::RemovePlaceApart(const std::string& name) const {
  const std::string apart = name + std::string(kMakingEnd);
  if (::unlinkat(directory_.get(), apart.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return absl::OkStatus();
  return Failed(errno, fmt::format("remove the directory {}", Quote(apart)));
}

absl::Status SubvolumePool::CheckIsMember(const std::string& name, std::uint64_t group) const {
  const UniqueFd subvolume = OpenDirectoryBelow(directory_, name);
  if (!subvolume.ok()) return Failed(errno, fmt::format("open the subvolume {}", Quote(name)));
  return mooring::CheckIsMember(subvolume, path_ + "/" + name, group);
}

absl::StatusOr<PutBackCount> SubvolumePool::PutBackStrangers(const std::string& name, std::uint64_t group) const {
  MOORING_ASSIGN_OR_RETURN(const BtrfsQuotas quotas, Quotas());
  MOORING_ASSIGN_OR_RETURN(const std::optional<BtrfsQuotas::Group> limit, quotas.Find(group));
  const UniqueFd subvolume = OpenDirectoryBelow(directory_, name);
  if (!limit || (!subvolume.ok() && errno == ENOENT)) return PutBackCount();
  if (!subvolume.ok()) return Failed(errno, fmt::format("open the subvolume {}", Quote(name)));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t id, SubvolumeIdOf(subvolume, path_));
  return mooring::PutBackStrangers(directory_, path_ + "/" + name, id, group);
}

absl::StatusOr<std::uint64_t> SubvolumePool::TransactionOf(const std::string& name) const {
  const std::string made = name + std::string(kMakingEnd) + "/" + name;
  const UniqueFd subvolume = OpenDirectoryBelow(directory_, made);
  btrfs_ioctl_get_subvol_info_args info = {};
  if (!subvolume.ok()) return Failed(errno, fmt::format("open the subvolume {}", Quote(made)));
  if (::ioctl(subvolume.get(), BTRFS_IOC_GET_SUBVOL_INFO, &info) >= 0) return info.otransid;
  return Failed(errno, fmt::format("look at the subvolume {}", Quote(made)));
}

absl::Status SubvolumePool::MakeGroup(std::uint64_t group) const {
  btrfs_ioctl_qgroup_create_args make = {.create = 1, .qgroupid = QuotaGroupId(group)};
  if (::ioctl(directory_.get(), BTRFS_IOC_QGROUP_CREATE, &make) == 0 || errno == EEXIST) return absl::OkStatus();
  return Failed(errno, "make a group of quotas");
}

absl::Status SubvolumePool::Limit(std::uint64_t group, std::uint64_t bytes) const {
  btrfs_ioctl_qgroup_limit_args limit = {};
  limit.qgroupid = QuotaGroupId(group);
  limit.lim.flags = BTRFS_QGROUP_LIMIT_MAX_RFER;
  limit.lim.max_rfer = bytes;
  if (::ioctl(directory_.get(), BTRFS_IOC_QGROUP_LIMIT, &limit) == 0) return absl::OkStatus();
  return Failed(errno, "limit a group of quotas");
}

// A group with members cannot be removed. A deleted volume whose data a snapshot still uses has one for as long.
absl::Status SubvolumePool::RemoveGroup(std::uint64_t group) const {
  for (int attempt = 0;; ++attempt) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> members,
                             RelatedGroups(directory_, path_, QuotaGroupId(group)));
    for (const std::uint64_t member : members) {
      btrfs_ioctl_qgroup_assign_args leave = {.assign = 0, .src = member, .dst = QuotaGroupId(group)};
      if (::ioctl(directory_.get(), BTRFS_IOC_QGROUP_ASSIGN, &leave) < 0 && errno != ENOENT) {
        return Failed(errno, "clear a group of quotas");
      }
    }
    btrfs_ioctl_qgroup_create_args remove = {.create = 0, .qgroupid = QuotaGroupId(group)};
    if (::ioctl(directory_.get(), BTRFS_IOC_QGROUP_CREATE, &remove) == 0) return absl::OkStatus();
    if (errno == ENOENT || errno == ENOTCONN) return absl::OkStatus();
    // The tenant of another volume can make members of any group.
    if (errno != EBUSY || attempt == kAttempts) return Failed(errno, "remove a group of quotas");
  }
}

absl::Status SubvolumePool::FinishDeletion(const std::string& name) const {
  return DeleteHidden(name + std::string(kDeletingEnd));
}

absl::Status SubvolumePool::Hide(const std::string& name) const {
  MOORING_RETURN_IF_ERROR(FinishDeletion(name));
  MOORING_ASSIGN_OR_RETURN(const bool exists, Has(name));
  const std::string deleting = name + std::string(kDeletingEnd);
  const int here = directory_.get();
  if (!exists || ::renameat2(here, name.c_str(), here, deleting.c_str(), RENAME_NOREPLACE) == 0) {
    return absl::OkStatus();
  }
  return Failed(errno, fmt::format("rename the subvolume {}", Quote(name)));
}

absl::Status SubvolumePool::Delete(const std::string& name) const {
  MOORING_RETURN_IF_ERROR(Hide(name));
  MOORING_RETURN_IF_ERROR(FinishDeletion(name));
  MOORING_RETURN_IF_ERROR(DeleteHidden(name + std::string(kMakingEnd) + "/" + name));
  return RemovePlaceApart(name);
}

absl::Status SubvolumePool::DeleteHidden(const std::string& path) const {
  const UniqueFd subvolume = OpenDirectoryBelow(directory_, path);
  if (!subvolume.ok() && errno == ENOENT) return absl::OkStatus();
  struct stat status = {};
  if (!subvolume.ok() || ::fstat(subvolume.get(), &status) != 0) {
    return Failed(errno, fmt::format("open the subvolume {}", Quote(path)));
  }
  if (status.st_ino == BTRFS_FIRST_FREE_OBJECTID) return DeleteWithInner(directory_, subvolume, path_);
  return FailedPrecondition("{} in {} is no subvolume: it is left alone", Quote(path), Quote(path_));
}

// A group can exist a moment before its subvolume: not after a commit.
absl::Status SubvolumePool::RemoveStaleGroups() const {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> groups, GroupsOfSubvolumes(directory_, path_));
  MOORING_RETURN_IF_ERROR(Commit());
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> subvolumes, AllSubvolumes(directory_, path_));
  for (const std::uint64_t group : groups) {
    if (std::binary_search(subvolumes.begin(), subvolumes.end(), group)) continue;
    btrfs_ioctl_qgroup_create_args remove = {.create = 0, .qgroupid = group};
    const bool stays = ::ioctl(directory_.get(), BTRFS_IOC_QGROUP_CREATE, &remove) != 0;
    if (stays && errno != EBUSY && errno != ENOENT && errno != ENOTCONN) {
      return Failed(errno, "remove a group of quotas");
    }
  }
  return absl::OkStatus();
}

absl::Status SubvolumePool::BeginCommit() const {
  std::uint64_t transaction = 0;
  if (::ioctl(directory_.get(), BTRFS_IOC_START_SYNC, &transaction) == 0) return absl::OkStatus();
  return Failed(errno, "begin a commit");
}

// Unlike syncfs(2), it does not write all data of all volumes.
absl::Status SubvolumePool::Commit() const {
  std::uint64_t transaction = 0;
  if (::ioctl(directory_.get(), BTRFS_IOC_START_SYNC, &transaction) == 0 &&
      ::ioctl(directory_.get(), BTRFS_IOC_WAIT_SYNC, &transaction) == 0) {
    return absl::OkStatus();
  }
  return Failed(errno, "commit the changes");
}

absl::Status SubvolumePool::EnableQuotas() const {
  btrfs_ioctl_quota_ctl_args args = {};
  args.cmd = kEnableSimpleQuotas;
  if (::ioctl(directory_.get(), BTRFS_IOC_QUOTA_CTL, &args) == 0) return absl::OkStatus();
  if (errno != EINVAL) return Failed(errno, "turn simple quotas on");
  return FailedPrecondition("simple quotas in {}: this kernel has none, Linux 6.7 does", Quote(path_));
}

absl::StatusOr<bool> SubvolumePool::IsEmpty() const {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> ids, SubvolumesFrom(directory_, path_, kTopSubvolumeId));
  return ids.size() == 1;
}

absl::StatusOr<std::vector<std::string>> SubvolumePool::Names() const {
  return EntriesOf(fmt::format("/proc/self/fd/{}", directory_.get()));
}

}  // namespace mooring
