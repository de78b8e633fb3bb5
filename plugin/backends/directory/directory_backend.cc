#include "plugin/backends/directory/directory_backend.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/image/image.h"
#include "plugin/backends/interface/pool_space.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_mount.h"

namespace mooring {
namespace {

constexpr std::string_view kMaking = ".making";
constexpr std::string_view kDeleting = ".deleting";

// The volume id if `name` is an id with `suffix`, else empty.
std::string IdOf(const std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return "";
  std::string id = name.substr(0, name.size() - suffix.size());
  return IsVolumeId(id) ? id : "";
}

}  // namespace

DirectoryBackend::DirectoryBackend(std::string directory, Mounts& mounts, Contents& contents, mode_t new_mode)
    : directory_(std::move(directory)), mounts_(mounts), contents_(contents), new_mode_(new_mode) {}

absl::Status DirectoryBackend::Create(const VolumeDraft& draft) {
  if (!IsVolumeId(draft.id)) return Internal(fmt::format("{} is no id of a volume", Quote(draft.id)));
  if (Locate(draft.id).ok()) return absl::OkStatus();
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

absl::Status DirectoryBackend::Copy(const std::vector<CopyDraft>&) {
  return Unimplemented("a directory cannot be copied as of one instant: this pool has no snapshots and no clones");
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

absl::Status DirectoryBackend::Grow(const std::string&, std::uint64_t) {
  return Unimplemented("a directory has no size that could grow");
}

absl::StatusOr<VolumeLocation> DirectoryBackend::Locate(const std::string& id) const {
  if (!IsVolumeId(id)) return NotFound(fmt::format("volume {} does not exist", Quote(id)));
  VolumeLocation location = {.path = PathOf(id)};
  struct statx found = {};
  const int flags = AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC;  // a hanging server must not block a list
  if (::statx(AT_FDCWD, location.path.c_str(), flags, STATX_TYPE | STATX_INO, &found) != 0) {
    return ErrnoStatus(errno, "find the directory", location.path);
  }
  if (!S_ISDIR(found.stx_mode)) return FailedPrecondition(fmt::format("{} is no directory", Quote(location.path)));
  location.inode = found.stx_ino;
  return location;
}

absl::StatusOr<BackendCapacity> DirectoryBackend::Capacity() const { return SpaceIn(directory_); }

bool DirectoryBackend::HoldsData(const std::string& id) const {
  std::error_code error;
  return !std::filesystem::is_empty(PathOf(id), error) || error;
}

absl::StatusOr<std::vector<std::string>> DirectoryBackend::Reconcile() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(directory_));
  std::set<std::string> ids;
  for (const std::string& name : names) {
    if (IsVolumeId(name)) ids.insert(name);
    const std::string path = directory_ + "/" + name;
    if (!IdOf(name, kMaking).empty()) ::rmdir(path.c_str());
    if (IdOf(name, kDeleting).empty()) continue;
    if (const absl::Status removed = RemoveRenamed(path); !removed.ok()) {
      log::Warning("a deleted volume is still on disk", {{"directory", path}, {"cause", Message(removed)}});
    }
  }
  return std::vector<std::string>(ids.begin(), ids.end());
}

}  // namespace mooring
