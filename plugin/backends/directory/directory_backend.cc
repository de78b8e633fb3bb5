#include "plugin/backends/directory/directory_backend.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file/directory.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mounter.h"
#include "plugin/backends/interface/pool_space.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_mount.h"

namespace mooring {
namespace {

constexpr std::string_view kMaking = ".making";
constexpr std::string_view kDeleting = ".deleting";

// A mount of a directory is recognised by its root. The kernel shows that of each NFS mount as "/".
absl::Status CheckRootsAreShown(const std::string& directory) {
  struct statfs filesystem = {};
  if (::statfs(directory.c_str(), &filesystem) != 0) return ErrnoStatus(errno, "look at the filesystem of", directory);
  if (filesystem.f_type != NFS_SUPER_MAGIC) return absl::OkStatus();
  return FailedPrecondition("{} lies on NFS, where a directory volume in use cannot be recognised: use an image pool",
                            Quote(directory));
}

class DirectoryBackend final : public Backend {
 public:
  // `directory` is absolute, exists, and its path has no symbolic link. `new_mode`: of the directories of new volumes
  // (mounter/guard/source_guard.h).
  DirectoryBackend(std::string directory, Mounts& mounts, Contents& contents, mode_t new_mode)
      : directory_(std::move(directory)), mounts_(mounts), contents_(contents), new_mode_(new_mode) {}

  // OUT_OF_RANGE: larger than the free space. A failure leaves no directory.
  absl::Status Create(const VolumeDraft& draft) override;
  absl::Status CheckUnused(const std::string& id) override;
  absl::Status Delete(const std::string& id) override;
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;
  absl::StatusOr<BackendCapacity> Capacity() const override;
  bool HoldsData(const std::string& id) const override;
  absl::StatusOr<std::vector<std::string>> Reconcile() override;

 private:
  std::string PathOf(const std::string& id) const { return directory_ + "/" + id; }
  absl::Status RemoveRenamed(const std::string& path);

  const std::string directory_;
  Mounts& mounts_;
  Contents& contents_;
  const mode_t new_mode_;
};

absl::Status DirectoryBackend::Create(const VolumeDraft& draft) {
  if (!IsVolumeId(draft.id)) return Internal("{} is no id of a volume", Quote(draft.id));
  if (Locate(draft.id).ok()) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckRootsAreShown(directory_));
  MOORING_RETURN_IF_ERROR(CheckSpaceIn(directory_, draft.bytes));
  const std::string path = PathOf(draft.id), making = path + std::string(kMaking);
  // A leftover directory is empty, because no call returned its volume.
  if (::mkdir(making.c_str(), new_mode_) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "create the directory", making);
  }
  if (::renameat2(AT_FDCWD, making.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
    const absl::Status failed = ErrnoStatus(errno, "create the directory", path);
    ::rmdir(making.c_str());
    return failed;
  }
  return SyncDirectoryOf(path);
}

absl::Status DirectoryBackend::CheckUnused(const std::string& id) {
  if (!Locate(id).ok()) return absl::OkStatus();
  return CheckNotMounted(mounts_, id);
}

absl::Status DirectoryBackend::Delete(const std::string& id) {
  if (!IsVolumeId(id)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckUnused(id));
  const std::string path = PathOf(id), deleting = path + std::string(kDeleting);
  if (::rmdir((path + std::string(kMaking)).c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "remove the directory", path + std::string(kMaking));
  }
  if (::rename(path.c_str(), deleting.c_str()) != 0 && errno != ENOENT) {
    // An unfinished deletion left a directory of this name.
    if (errno != ENOTEMPTY && errno != EEXIST) return ErrnoStatus(errno, "rename the directory", path);
    MOORING_RETURN_IF_ERROR(RemoveRenamed(deleting));
    if (::rename(path.c_str(), deleting.c_str()) != 0) return ErrnoStatus(errno, "rename the directory", path);
  }
  return RemoveRenamed(deleting);
}

absl::Status DirectoryBackend::RemoveRenamed(const std::string& path) {
  // If the state directory is missing too, its disk may be mounted again later, with the volume.
  MOORING_RETURN_IF_ERROR(SyncDirectoryOf(path));
  MOORING_RETURN_IF_ERROR(contents_.RemoveTree(path));
  return SyncDirectoryOf(path);
}

absl::StatusOr<VolumeLocation> DirectoryBackend::Locate(const std::string& id) const {
  if (!IsVolumeId(id)) return NotFound("volume {} does not exist", Quote(id));
  VolumeLocation location = {.path = PathOf(id)};
  struct statx found = {};
  const int flags = AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC;  // a hanging server must not block a list
  if (::statx(AT_FDCWD, location.path.c_str(), flags, STATX_TYPE | STATX_INO, &found) != 0) {
    return ErrnoStatus(errno, "find the directory", location.path);
  }
  if (!S_ISDIR(found.stx_mode)) return Internal("{} is no directory", Quote(location.path));
  location.inode = found.stx_ino;
  return location;
}

absl::StatusOr<BackendCapacity> DirectoryBackend::Capacity() const {
  return AskInTime(directory_, [directory = directory_] { return SpaceIn(directory); });
}

bool DirectoryBackend::HoldsData(const std::string& id) const { return !IsKnownEmpty(PathOf(id)); }

absl::StatusOr<std::vector<std::string>> DirectoryBackend::Reconcile() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(directory_));
  std::set<std::string> ids;
  for (const std::string& name : names) {
    if (IsVolumeId(name)) ids.insert(name);
    const std::string path = directory_ + "/" + name;
    if (IsVolumeId(IdOfFile(name, kMaking))) ::rmdir(path.c_str());
    if (!IsVolumeId(IdOfFile(name, kDeleting))) continue;
    log::WarningIfFailed(RemoveRenamed(path), "a deleted volume is still on disk", {{"directory", path}});
  }
  return std::vector<std::string>(ids.begin(), ids.end());
}

absl::Status CompleteDirectoryPool(PoolConfig& pool) {
  return pool.path.empty() ? InvalidArgument("path is missing") : absl::OkStatus();
}

std::unique_ptr<Backend> MakeDirectoryBackend(const PoolConfig&, const std::string& directory,
                                              const BackendParts& parts) {
  return std::make_unique<DirectoryBackend>(directory, parts.mounter, parts.mounter, parts.new_directory_mode);
}

}  // namespace

const BackendType& DirectoryBackendType() {
  static const BackendType kType = {
      .traits = {.name = "directory", .staging = Staging::kDirectory, .keeps_data = true},
      .pool_keys = {"path", "overcommit"},
      .complete = CompleteDirectoryPool,
      .owns_path = true,
      .tasks_files = true,
      .make = MakeDirectoryBackend,
      .allow = [](const PoolConfig& pool, PoolAccess& access) { access.volume_directories.push_back(pool.path); }};
  return kType;
}

}  // namespace mooring
