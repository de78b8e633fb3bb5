#include "plugin/backends/directory/directory_backend.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file/directory.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mounter.h"
#include "mounter/subvolumes.h"
#include "plugin/backends/directory/directory_pool.h"
#include "plugin/backends/interface/pool_space.h"
#include "plugin/backends/interface/quota_word.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_mount.h"
#include "plugin/model/volume_size.h"

namespace mooring {
namespace {

// A pool of this host alone needs no server.
absl::Status CheckIsLocal(const std::string& directory) {
  struct statfs filesystem = {};
  if (::statfs(directory.c_str(), &filesystem) != 0) return ErrnoStatus(errno, "look at the filesystem of", directory);
  if (filesystem.f_type != NFS_SUPER_MAGIC) return absl::OkStatus();
  return FailedPrecondition("{} lies on NFS, whose server may stop: use a pool with backend=nfs", Quote(directory));
}

// Renames within the pool.
absl::Status RenameError(int error, const std::string& path) {
  if (error != EXDEV) return ErrnoStatus(error, "rename the directory", path);
  return FailedPrecondition(
      "rename the directory {}: {}: something is mounted at it, or the directory of its pool gives a project of a "
      "quota "
      "to what is made in it: take that away (chattr -P -p 0)",
      Quote(path), std::strerror(error));
}

// Not from a cache.
absl::Status AskFor(const std::string& path) {
  struct statx found = {};
  const int flags = AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC;
  if (::statx(AT_FDCWD, path.c_str(), flags, STATX_BASIC_STATS, &found) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "look at", path);
}

absl::Status RemoveLink(const std::string& path) {
  return ::unlink(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus()
                                                        : ErrnoStatus(errno, "remove the link", path);
}

class DirectoryBackend final : public Backend {
 public:
  // `directory` is absolute, exists unless the pool is away, and its path has no symbolic link.
  DirectoryBackend(const PoolConfig& pool, const std::string& directory, const BackendParts& parts)
      : directory_(parts.availability == nullptr ? directory : PlaceForCalls(directory)),
        shown_(directory),
        mounts_(parts.mounter),
        contents_(parts.mounter),
        new_mode_(parts.new_directory_mode),
        quota_(QuotaWordOf(pool)),
        away_(pool.away),
        availability_(parts.availability) {}

  // OUT_OF_RANGE: larger than the free space. A failure leaves no directory.
  absl::Status Create(const VolumeDraft& draft) override;
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override;
  absl::Status CheckUnused(const std::string& id) override;
  absl::Status Delete(const std::string& id) override;
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override;
  absl::Status HoldToSize(const std::string& id, std::uint64_t bytes) override;
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;
  absl::StatusOr<BackendCapacity> Capacity() const override;
  absl::Status SetAside(const std::string& id, const std::string& name) override;
  absl::Status TakeName(const std::string& id, const std::string& name, bool adopts) override;
  absl::Status SetName(const std::string& id, const std::string& name) override;
  absl::Status ClearName(const std::string& id, const std::string& name) override;
  bool HoldsData(const std::string& id) const override;
  absl::StatusOr<std::vector<std::string>> Reconcile() override;

 private:
  bool is_shared() const { return availability_ != nullptr; }
  absl::Status CheckThere() const;
  absl::Status CheckUsable() const {
    MOORING_RETURN_IF_ERROR(CheckThere());
    return is_shared() ? absl::OkStatus() : CheckIsLocal(directory_);
  }
  std::string PathOf(const std::string& id) const { return directory_ + "/" + id; }
  std::string Shown(const std::string& name) const { return shown_ + "/" + name; }
  bool is_enforced() const { return quota_ == kEnforced; }
  absl::Status MakeLimited(const std::string& id, std::uint64_t bytes);
  absl::Status ShowMade(const std::string& id);
  absl::Status RemoveUnfinished(const std::string& id);
  absl::Status SetLimit(const std::string& id, VolumeLocation& location) const;
  absl::Status RemoveRenamed(const std::string& name);
  absl::StatusOr<std::string> LinkAt(const std::string& name) const;
  absl::StatusOr<bool> FreeName(const std::string& id, const std::string& name) const;
  absl::Status CheckGone(const std::string& name) const;
  // The kernel looks a name that was missing up anew only if the directory is known to have changed.
  absl::Status LookAnew() const { return is_shared() ? AskFor(directory_) : absl::OkStatus(); }

  const std::string directory_, shown_;  // for this process; for the mounter and tasks
  Mounts& mounts_;
  Contents& contents_;
  const mode_t new_mode_;           // of the directories of new volumes (mounter/guard/source_guard.h)
  const std::string quota_, away_;  // the word of the pool; PoolConfig::away
  const std::shared_ptr<const Availability> availability_;  // null: only this host has the pool
};

absl::Status DirectoryBackend::CheckThere() const {
  if (!away_.empty()) return Unavailable("{}", away_);
  return is_shared() ? availability_->Check() : absl::OkStatus();
}

absl::Status DirectoryBackend::Create(const VolumeDraft& draft) {
  if (!IsVolumeId(draft.id)) return Internal("{} is no id of a volume", Quote(draft.id));
  if (Locate(draft.id).ok()) return HoldToSize(draft.id, draft.bytes);
  MOORING_RETURN_IF_ERROR(CheckUsable());
  MOORING_RETURN_IF_ERROR(CheckSpaceIn(directory_, draft.bytes));
  if (is_enforced()) {
    MOORING_RETURN_IF_ERROR(RemoveUnfinished(draft.id));
    absl::Status made = MakeLimited(draft.id, draft.bytes);
    if (made.ok()) made = ShowMade(draft.id);
    if (!made.ok()) {
      log::WarningIfFailed(RemoveUnfinished(draft.id), "an unfinished volume is still on disk", {{"volume", draft.id}});
    }
    return made;
  }
  const std::string path = PathOf(draft.id);
  if (::mkdir(path.c_str(), new_mode_) != 0) return ErrnoStatus(errno, "create the directory", path);
  return SyncDirectoryOf(path);
}

// The directory has its limit before it has its name, and before a copy has data.
absl::Status DirectoryBackend::MakeLimited(const std::string& id, std::uint64_t bytes) {
  const std::string making = PathOf(id) + std::string(kMakingEnd);
  if (::mkdir(making.c_str(), new_mode_) != 0) return ErrnoStatus(errno, "create the directory", making);
  return contents_.LimitDirectory(making, bytes);
}

absl::Status DirectoryBackend::ShowMade(const std::string& id) {
  const std::string path = PathOf(id), making = path + std::string(kMakingEnd);
  MOORING_RETURN_IF_ERROR(LookAnew());  // the mounter has made it in another mount
  return ::rename(making.c_str(), path.c_str()) == 0 ? SyncDirectoryOf(path) : RenameError(errno, making);
}

absl::Status DirectoryBackend::Copy(const std::vector<CopyDraft>& drafts) {
  if (drafts.size() != 1) return Internal("{} copies of directories at once", drafts.size());
  const CopyDraft& draft = drafts.front();
  if (!IsVolumeId(draft.id)) return Internal("{} is no id of a volume", Quote(draft.id));
  MOORING_RETURN_IF_ERROR(CheckUsable());
  MOORING_RETURN_IF_ERROR(CheckNotMounted(mounts_, std::string(NameOf(draft.source))));
  MOORING_RETURN_IF_ERROR(CheckSpaceIn(directory_, draft.bytes));
  MOORING_RETURN_IF_ERROR(RemoveUnfinished(draft.id));
  if (is_enforced()) MOORING_RETURN_IF_ERROR(MakeLimited(draft.id, draft.bytes));
  MOORING_RETURN_IF_ERROR(contents_.CopyTree(draft.source, Shown(draft.id + std::string(kMakingEnd))));
  return ShowMade(draft.id);
}

// A call that failed or was killed has left it.
absl::Status DirectoryBackend::RemoveUnfinished(const std::string& id) {
  const std::string name = id + std::string(kMakingEnd);
  MOORING_RETURN_IF_ERROR(LookAnew());
  struct stat found = {};
  if (::lstat(PathOf(name).c_str(), &found) == 0) return RemoveRenamed(name);
  return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "look for", PathOf(name));
}

absl::Status DirectoryBackend::HoldToSize(const std::string& id, std::uint64_t bytes) {
  return is_enforced() ? contents_.LimitDirectory(PathOf(id), bytes) : absl::OkStatus();
}

absl::Status DirectoryBackend::Grow(const std::string& id, std::uint64_t bytes) {
  if (quota_.empty()) return Backend::Grow(id, bytes);
  MOORING_ASSIGN_OR_RETURN(const VolumeLocation found, Locate(id));
  if (!is_enforced() && !found.is_limited) return absl::OkStatus();  // else it is from before quota=advisory
  const std::uint64_t now = found.is_limited ? std::min(found.bytes, bytes) : bytes;
  MOORING_RETURN_IF_ERROR(CheckSpaceIn(directory_, bytes - now));
  MOORING_ASSIGN_OR_RETURN(const BackendCapacity capacity, SpaceIn(directory_));
  if (bytes < capacity.total) return contents_.LimitDirectory(PathOf(id), bytes);
  return OutOfRange("{} are asked for, and the whole filesystem of {} has {}: ask for less", SizeText(bytes),
                    Quote(directory_), SizeText(capacity.total));
}

absl::Status DirectoryBackend::CheckUnused(const std::string& id) {
  MOORING_RETURN_IF_ERROR(CheckThere());
  return CheckNotMounted(mounts_, id);
}

absl::Status DirectoryBackend::Delete(const std::string& id) {
  if (!IsVolumeId(id)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckThere());
  MOORING_RETURN_IF_ERROR(CheckUnused(id));
  const std::string path = PathOf(id), deleting = path + std::string(kDeletingEnd);
  if (::rename(path.c_str(), deleting.c_str()) != 0 && errno != ENOENT) {
    // An unfinished deletion left a directory of this name.
    if (errno != ENOTEMPTY && errno != EEXIST) return RenameError(errno, path);
    MOORING_RETURN_IF_ERROR(RemoveRenamed(id + std::string(kDeletingEnd)));
    if (::rename(path.c_str(), deleting.c_str()) != 0) return RenameError(errno, path);
  }
  MOORING_RETURN_IF_ERROR(RemoveRenamed(id + std::string(kDeletingEnd)));
  MOORING_RETURN_IF_ERROR(RemoveUnfinished(id));
  return is_shared() ? CheckGone(id) : absl::OkStatus();
}

absl::Status DirectoryBackend::SetAside(const std::string& id, const std::string& name) {
  if (!IsVolumeId(id)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckThere());
  const std::string path = PathOf(id), kept = PathOf(name);
  if (::rename(path.c_str(), kept.c_str()) != 0 && errno != ENOENT) {
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) {
      return ErrnoStatus(errno, fmt::format("rename to {} the directory", Quote(name)), path);
    }
    return FailedPrecondition("{} exists: move it away, and delete the volume again", Quote(kept));
  }
  MOORING_RETURN_IF_ERROR(SyncDirectoryOf(path));
  return is_shared() ? CheckGone(id) : absl::OkStatus();
}

// The content of the symbolic link of that name. Empty: nothing has the name. ALREADY_EXISTS: it is no link.
absl::StatusOr<std::string> DirectoryBackend::LinkAt(const std::string& name) const {
  MOORING_RETURN_IF_ERROR(LookAnew());
  std::array<char, PATH_MAX> content = {};
  const std::string path = PathOf(name);
  const ssize_t size = ::readlink(path.c_str(), content.data(), content.size());
  if (size >= 0) return std::string(content.data(), static_cast<std::size_t>(size));
  if (errno == ENOENT) return "";
  if (errno != EINVAL) return ErrnoStatus(errno, "read the link", path);
  return AlreadyExists("{} exists, and was not made for a volume: move it away, or take another name", Quote(path));
}

// Returns whether the name leads to the volume already. Otherwise nothing has it afterwards: a link to a volume that is
// gone is removed.
absl::StatusOr<bool> DirectoryBackend::FreeName(const std::string& id, const std::string& name) const {
  MOORING_ASSIGN_OR_RETURN(const std::string to, LinkAt(name));
  if (to.empty() || to == id) return to == id;
  struct stat found = {};
  if (!IsVolumeId(to) || ::lstat(PathOf(to).c_str(), &found) == 0 || errno != ENOENT) {
    return AlreadyExists("{} is a symbolic link to {}: move it away, or take another name", Quote(PathOf(name)),
                         Quote(to));
  }
  MOORING_RETURN_IF_ERROR(RemoveLink(PathOf(name)));
  return false;
}

absl::Status DirectoryBackend::TakeName(const std::string& id, const std::string& name, bool adopts) {
  MOORING_RETURN_IF_ERROR(CheckUsable());
  const absl::Status free = FreeName(id, name).status();
  const std::string from = PathOf(name), path = PathOf(id), records = from + std::string(kSharedRecords);
  struct stat found = {};
  if (!absl::IsAlreadyExists(free) || ::lstat(from.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) return free;
  if (!adopts) {
    return AlreadyExists(
        "{} exists: take another name. A new volume, but no copy, uses what is there with onDelete=retain, which gives "
        "the directory its name back, or with onDelete=archive",
        Quote(from));
  }
  if (::lstat(records.c_str(), &found) == 0) return AlreadyExists("{} is a pool of Mooring itself", Quote(from));
  if (errno != ENOENT) return ErrnoStatus(errno, "look for", records);
  return ::rename(from.c_str(), path.c_str()) == 0 ? SyncDirectoryOf(path) : RenameError(errno, from);
}

absl::Status DirectoryBackend::SetName(const std::string& id, const std::string& name) {
  MOORING_RETURN_IF_ERROR(CheckThere());
  MOORING_ASSIGN_OR_RETURN(const bool is_set, FreeName(id, name));
  if (is_set) return absl::OkStatus();
  const std::string path = PathOf(name);
  return ::symlink(id.c_str(), path.c_str()) == 0 ? SyncDirectoryOf(path) : ErrnoStatus(errno, "make the link", path);
}

absl::Status DirectoryBackend::ClearName(const std::string& id, const std::string& name) {
  MOORING_RETURN_IF_ERROR(CheckThere());
  const absl::StatusOr<std::string> to = LinkAt(name);
  if (absl::IsAlreadyExists(to.status())) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(to.status());
  return *to == id ? RemoveLink(PathOf(name)) : absl::OkStatus();
}

absl::Status DirectoryBackend::RemoveRenamed(const std::string& name) {
  const std::string path = PathOf(name);
  // If the state directory is missing too, its disk may be mounted again later, with the volume.
  MOORING_RETURN_IF_ERROR(SyncDirectoryOf(path));
  MOORING_RETURN_IF_ERROR(contents_.RemoveTree(Shown(name)));
  if (is_shared()) MOORING_RETURN_IF_ERROR(CheckGone(name));
  return SyncDirectoryOf(path);
}

// The mounter works in the mount for tasks. That may be gone, so that its place is empty, and it may know the name as
// missing for a while. The server knows what is there.
absl::Status DirectoryBackend::CheckGone(const std::string& name) const {
  const std::string path = PathOf(name);
  MOORING_RETURN_IF_ERROR(LookAnew());
  const absl::Status there = AskFor(path);
  if (absl::IsNotFound(there)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(there);
  return Unavailable("{} is still on the server: the mount at {} does not show it now", Quote(path), Quote(shown_));
}

absl::StatusOr<VolumeLocation> DirectoryBackend::Locate(const std::string& id) const {
  if (!IsVolumeId(id)) return NotFound("volume {} does not exist", Quote(id));
  MOORING_RETURN_IF_ERROR(CheckThere());
  VolumeLocation location = {.path = Shown(id)};
  struct statx found = {};
  const int flags = AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC;  // a hanging server must not block a list
  if (::statx(AT_FDCWD, PathOf(id).c_str(), flags, STATX_TYPE | STATX_INO, &found) != 0) {
    return ErrnoStatus(errno, "find the directory", location.path);
  }
  if (!S_ISDIR(found.stx_mode)) return Internal("{} is no directory", Quote(location.path));
  location.inode = found.stx_ino;
  if (!quota_.empty()) MOORING_RETURN_IF_ERROR(SetLimit(id, location));
  return location;
}

// The kernel answers any user with the limit, if the directory has its project and the limit is enforced. Else it
// answers with the whole filesystem.
absl::Status DirectoryBackend::SetLimit(const std::string& id, VolumeLocation& location) const {
  MOORING_ASSIGN_OR_RETURN(const BackendCapacity volume, SpaceIn(PathOf(id)));
  MOORING_ASSIGN_OR_RETURN(const BackendCapacity pool, SpaceIn(directory_));
  location.is_limited = volume.total < pool.total;
  if (location.is_limited) location.bytes = volume.total;
  if (location.is_limited || !is_enforced()) return absl::OkStatus();
  location.problem = fmt::format(
      "its directory {} has lost its limit, so it is not held to its size: start the plugin again, which sets the "
      "limit, or says in its log why it cannot",
      Quote(location.path));
  return absl::OkStatus();
}

absl::StatusOr<BackendCapacity> DirectoryBackend::Capacity() const {
  MOORING_RETURN_IF_ERROR(CheckThere());
  return AskInTime(directory_, [directory = directory_] { return SpaceIn(directory); });
}

bool DirectoryBackend::HoldsData(const std::string& id) const { return !IsKnownEmpty(PathOf(id)); }

absl::StatusOr<std::vector<std::string>> DirectoryBackend::Reconcile() {
  MOORING_RETURN_IF_ERROR(CheckThere());
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(directory_));
  std::set<std::string> ids;
  absl::Status left;
  for (const std::string& name : names) {
    if (IsVolumeId(name)) ids.insert(name);
    const std::string made = IdOfFile(name, kMakingEnd);
    if (IsVolumeId(made)) ids.insert(made);  // its record tells whether a call still makes it, even if it is empty
    if (!IsVolumeId(IdOfFile(name, kDeletingEnd))) continue;
    left.Update(Annotate(RemoveRenamed(name), Quote(directory_ + "/" + name) + " is a deleted volume"));
  }
  if (is_shared()) MOORING_RETURN_IF_ERROR(left);  // it is called again
  log::WarningIfFailed(left, "a deleted volume is still on disk", {{"directory", directory_}});
  return std::vector<std::string>(ids.begin(), ids.end());
}

std::unique_ptr<Backend> MakeDirectoryBackend(const PoolConfig& pool, const std::string& directory,
                                              const BackendParts& parts) {
  return std::make_unique<DirectoryBackend>(pool, directory, parts);
}

}  // namespace

const BackendType& DirectoryBackendType() {
  static const BackendType kType = {
      .traits = {.name = "directory", .staging = Staging::kDirectory, .clones = true, .clones_unused = true},
      .adapt = AddQuotaAbilities,
      .pool_keys = {"path", "overcommit", kQuotaKey},
      .complete = CompleteDirectoryPool,
      .owns_path = true,
      .tasks_files = true,
      .check_host = CheckDirectoryPool,
      .make = MakeDirectoryBackend,
      .allow = [](const PoolConfig& pool, PoolAccess& access) {
        access.volume_directories.push_back(pool.path);
        if (!QuotaWordOf(pool).empty()) access.sized_pools.push_back(pool.path);
      }};
  return kType;
}

}  // namespace mooring
