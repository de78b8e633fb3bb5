#include "plugin/backends/btrfs/btrfs_backend.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mounter.h"
#include "mounter/subvolumes.h"
#include "plugin/backends/btrfs/btrfs_pool.h"
#include "plugin/backends/interface/pool_space.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_mount.h"

namespace mooring {
namespace {

class BtrfsBackend final : public Backend {
 public:
  // `directory` is absolute, and its path has no symbolic link. `advisory`: no size is enforced.
  BtrfsBackend(std::string directory, bool advisory, Mounts& mounts, Subvolumes& subvolumes)
      : directory_(std::move(directory)), advisory_(advisory), mounts_(mounts), subvolumes_(subvolumes) {}

  // OUT_OF_RANGE: larger than the free space. FAILED_PRECONDITION: the quotas were turned off.
  absl::Status Create(const VolumeDraft& draft) override;
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override;
  absl::Status CheckUnused(const std::string& id) override;
  absl::Status Delete(const std::string& id) override;
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override;
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;
  absl::StatusOr<BackendCapacity> Capacity() const override;
  bool HoldsData(const std::string& id) const override;
  absl::StatusOr<std::vector<std::string>> Reconcile() override;

 private:
  std::string PathOf(const std::string& id) const { return directory_ + "/" + id; }
  absl::StatusOr<VolumeLocation> Find(const std::string& id) const;
  absl::Status CheckLimits() const;
  absl::Status PrepareLimits();
  absl::Status SetLimit(const std::string& id, VolumeLocation& location) const;

  const std::string directory_;
  const bool advisory_;
  Mounts& mounts_;
  Subvolumes& subvolumes_;
};

absl::Status BtrfsBackend::CheckLimits() const {
  if (advisory_) return CheckIsMounted(directory_);
  MOORING_ASSIGN_OR_RETURN(const BtrfsQuotas quotas, QuotasOf(directory_));
  const std::string problem = QuotaProblem(quotas, directory_);
  return problem.empty() ? absl::OkStatus() : FailedPrecondition(problem);
}

// Again if the start could not turn quotas on. The mounter does that only in a pool without subvolumes.
absl::Status BtrfsBackend::PrepareLimits() {
  const absl::Status limits = CheckLimits();
  if (!absl::IsFailedPrecondition(limits)) return limits;
  const absl::Status prepared = subvolumes_.PrepareSubvolumes(directory_);
  if (absl::IsFailedPrecondition(prepared)) return limits;
  MOORING_RETURN_IF_ERROR(prepared);
  return CheckLimits();
}

absl::Status BtrfsBackend::Create(const VolumeDraft& draft) {
  if (!IsVolumeId(draft.id)) return Internal("{} is no id of a volume", Quote(draft.id));
  MOORING_RETURN_IF_ERROR(PrepareLimits());
  MOORING_RETURN_IF_ERROR(CheckSpaceIn(directory_, draft.bytes));
  return subvolumes_.MakeSubvolumes({{.path = PathOf(draft.id), .bytes = advisory_ ? 0 : draft.bytes}});
}

absl::Status BtrfsBackend::Copy(const std::vector<CopyDraft>& drafts) {
  MOORING_RETURN_IF_ERROR(CheckLimits());
  std::vector<NewSubvolume> copies;
  for (const CopyDraft& draft : drafts) {
    if (!IsStoredId(draft.id)) return Internal("{} is no id of a volume or snapshot", Quote(draft.id));
    if (ParentOf(draft.source) != directory_) {
      return FailedPrecondition("{} lies in another pool than {}: a copy of a btrfs subvolume lies in the same pool",
                                Quote(draft.source), Quote(directory_));
    }
    const bool is_volume = IsVolumeId(draft.id);
    if (is_volume) MOORING_RETURN_IF_ERROR(CheckSpaceIn(directory_, draft.bytes));
    copies.push_back({.path = PathOf(draft.id),
                      .source = draft.source,
                      .bytes = is_volume && !advisory_ ? draft.bytes : 0,
                      .read_only = !is_volume});
  }
  return subvolumes_.MakeSubvolumes(copies);
}

absl::Status BtrfsBackend::CheckUnused(const std::string& id) {
  const absl::Status found = Find(id).status();
  if (absl::IsNotFound(found)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(found);
  return CheckNotMounted(mounts_, id);
}

absl::Status BtrfsBackend::Delete(const std::string& id) {
  if (!IsStoredId(id)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckUnused(id));
  return subvolumes_.RemoveSubvolume(PathOf(id));
}

absl::Status BtrfsBackend::Grow(const std::string& id, std::uint64_t bytes) {
  MOORING_ASSIGN_OR_RETURN(VolumeLocation found, Find(id));
  MOORING_RETURN_IF_ERROR(CheckLimits());
  MOORING_RETURN_IF_ERROR(SetLimit(id, found));
  const bool has_no_limit = advisory_ && !found.is_limited;  // it has one from the time before quota=advisory
  if (has_no_limit || found.bytes >= bytes) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckSpaceIn(directory_, bytes - found.bytes));
  return subvolumes_.LimitSubvolume(PathOf(id), bytes);
}

absl::StatusOr<VolumeLocation> BtrfsBackend::Locate(const std::string& id) const {
  MOORING_ASSIGN_OR_RETURN(VolumeLocation location, Find(id));
  if (IsVolumeId(id) && !advisory_) MOORING_RETURN_IF_ERROR(SetLimit(id, location));
  return location;
}

// Without its limit. NOT_FOUND: also an unfinished snapshot of a group. UNAVAILABLE: as CheckIsMounted.
absl::StatusOr<VolumeLocation> BtrfsBackend::Find(const std::string& id) const {
  if (!IsStoredId(id)) return NotFound("volume {} does not exist", Quote(id));
  VolumeLocation location = {.path = PathOf(id), .is_limited = false};
  struct statx found = {};
  const int flags = AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC;
  if (::statx(AT_FDCWD, location.path.c_str(), flags, STATX_TYPE | STATX_INO, &found) != 0) {
    const absl::Status missing = ErrnoStatus(errno, "find the subvolume", location.path);
    MOORING_RETURN_IF_ERROR(CheckIsMounted(directory_));
    return missing;
  }
  if (!S_ISDIR(found.stx_mode)) return Internal("{} is no directory", Quote(location.path));
  location.inode = found.stx_ino;
  location.inode_device = makedev(found.stx_dev_major, found.stx_dev_minor);
  if (IsVolumeId(id)) return location;
  const std::string making = location.path + std::string(kMakingEnd);
  if (::statx(AT_FDCWD, making.c_str(), flags, STATX_TYPE, &found) == 0) {
    return NotFound("snapshot {} is not finished", Quote(id));
  }
  return errno == ENOENT ? absl::StatusOr<VolumeLocation>(location) : ErrnoStatus(errno, "look for", making);
}

// A limit that somebody took away is no limit of 0 bytes.
absl::Status BtrfsBackend::SetLimit(const std::string& id, VolumeLocation& location) const {
  MOORING_ASSIGN_OR_RETURN(const BtrfsQuotas quotas, QuotasOf(directory_));
  MOORING_ASSIGN_OR_RETURN(const std::optional<BtrfsQuotas::Group> group, quotas.Find(GroupNumberOf(id)));
  location.problem = QuotaProblem(quotas, directory_);
  location.is_limited = group && group->limit != 0;
  if (location.is_limited) location.bytes = group->limit;
  if (location.is_limited || !location.problem.empty()) return absl::OkStatus();
  location.problem =
      "its group of quotas has no limit any more, so it is not held to its size: clone it, and use the clone";
  return absl::OkStatus();
}

absl::StatusOr<BackendCapacity> BtrfsBackend::Capacity() const {
  const auto ask = [directory = directory_, advisory = advisory_]() -> absl::StatusOr<BackendCapacity> {
    MOORING_RETURN_IF_ERROR(CheckIsMounted(directory));
    MOORING_ASSIGN_OR_RETURN(BackendCapacity capacity, SpaceIn(directory));
    if (advisory) return capacity;
    MOORING_ASSIGN_OR_RETURN(const BtrfsQuotas quotas, QuotasOf(directory));
    if (const std::string problem = QuotaProblem(quotas, directory); !problem.empty()) capacity.shortage = problem;
    return capacity;
  };
  return AskInTime(directory_, ask);
}

bool BtrfsBackend::HoldsData(const std::string& id) const { return !IsKnownEmpty(PathOf(id)); }

absl::StatusOr<std::vector<std::string>> BtrfsBackend::Reconcile() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(directory_));
  std::set<std::string> ids;
  for (const std::string& name : names) {
    if (IsStoredId(name)) ids.insert(name);
    if (IdOfUnfinished(name).empty()) continue;
    log::WarningIfFailed(subvolumes_.RemoveSubvolume(PathOf(name)), "an unfinished volume is still on disk",
                         {{"directory", PathOf(name)}});
  }
  if (!advisory_) {
    log::WarningIfFailed(subvolumes_.PrepareSubvolumes(directory_), "the quotas of a pool are not ready",
                         {{"directory", directory_}});
    log::WarningIfFailed(CheckLimits(), "a pool does not enforce sizes", {{"directory", directory_}});
  }
  return std::vector<std::string>(ids.begin(), ids.end());
}

absl::Status CompleteBtrfsPool(PoolConfig& pool) {
  if (pool.path.empty()) return InvalidArgument("path is missing: name the directory where its btrfs is mounted");
  std::string& quota = pool.own_keys[std::string(kQuotaKey)];
  if (quota.empty()) quota = kEnforced;
  return CheckQuotaWord(quota);
}

std::unique_ptr<Backend> MakeBtrfsBackend(const PoolConfig& pool, const std::string& directory,
                                          const BackendParts& parts) {
  return std::make_unique<BtrfsBackend>(directory, IsAdvisory(pool), parts.mounter, parts.mounter);
}

}  // namespace

const BackendType& BtrfsBackendType() {
  static const BackendType kType = {.traits = {.name = "btrfs",
                                               .staging = Staging::kDirectory,
                                               .snapshots = true,
                                               .clones = true,
                                               .grows = true,
                                               .enforces_size = true},
                                    .pool_keys = {"path", "overcommit", kQuotaKey},
                                    .complete = CompleteBtrfsPool,
                                    .owns_path = true,
                                    .tasks_files = true,
                                    .check_host = CheckBtrfsPool,
                                    .make = MakeBtrfsBackend,
                                    .allow = [](const PoolConfig& pool, PoolAccess& access) {
                                      access.volume_directories.push_back(pool.path);
                                      access.subvolume_pools.push_back(pool.path);
                                    }};
  return kType;
}

}  // namespace mooring
