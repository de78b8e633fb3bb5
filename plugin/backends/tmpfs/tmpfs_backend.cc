#include "plugin/backends/tmpfs/tmpfs_backend.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/image/image.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_mount.h"
#include "plugin/model/volume_size.h"

namespace mooring {

TmpfsBackend::TmpfsBackend(std::string directory, std::uint64_t bytes, Mounts& mounts)
    : directory_(std::move(directory)), bytes_(bytes), mounts_(mounts) {}

absl::Status TmpfsBackend::MakeDirectories() const {
  for (const std::string& path : {std::string(ParentOf(directory_)), directory_}) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, "create the directory", path);
  }
  return absl::OkStatus();
}

// The size is set in one step, so the file of an unfinished volume is empty, and the next Create sets its size.
absl::Status TmpfsBackend::Write(const std::string& id, std::uint64_t bytes) const {
  const std::string path = PathOf(id);
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!fd.ok()) return ErrnoStatus(errno, "record a volume in", path);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 || ::fsync(fd.get()) != 0) {
    return ErrnoStatus(errno, fmt::format("record {} in", SizeText(bytes)), path);
  }
  return SyncDirectoryOf(path);
}

absl::Status TmpfsBackend::Create(const VolumeDraft& draft) {
  if (!IsVolumeId(draft.id)) return Internal(fmt::format("{} is no id of a volume", Quote(draft.id)));
  MOORING_RETURN_IF_ERROR(MakeDirectories());
  return Write(draft.id, draft.bytes);
}

absl::Status TmpfsBackend::Copy(const std::vector<CopyDraft>&) {
  return Unimplemented("memory cannot be copied as of one instant: this pool has no snapshots and no clones");
}

absl::Status TmpfsBackend::CheckUnused(const std::string& id) { return CheckNotMounted(mounts_, id); }

absl::Status TmpfsBackend::Delete(const std::string& id) {
  if (!IsVolumeId(id)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckUnused(id));
  const std::string path = PathOf(id);
  if (::unlink(path.c_str()) != 0) return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "remove", path);
  return SyncDirectoryOf(path);
}

absl::Status TmpfsBackend::Grow(const std::string& id, std::uint64_t bytes) {
  MOORING_ASSIGN_OR_RETURN(const VolumeLocation now, Locate(id));
  return now.bytes >= bytes ? absl::OkStatus() : Write(id, bytes);
}

absl::StatusOr<VolumeLocation> TmpfsBackend::Locate(const std::string& id) const {
  if (!IsVolumeId(id)) return NotFound(fmt::format("volume {} does not exist", Quote(id)));
  struct stat found = {};
  const std::string path = PathOf(id);
  if (::lstat(path.c_str(), &found) != 0) return ErrnoStatus(errno, "find the record of the volume", path);
  if (!S_ISREG(found.st_mode)) return FailedPrecondition(fmt::format("{} is no regular file", Quote(path)));
  return VolumeLocation{.path = "", .bytes = static_cast<std::uint64_t>(found.st_size)};
}

absl::StatusOr<BackendCapacity> TmpfsBackend::Capacity() const {
  return BackendCapacity{.total = bytes_, .available = bytes_, .largest_volume = bytes_ - bytes_ % kVolumeGranularity};
}

absl::StatusOr<std::vector<std::string>> TmpfsBackend::Reconcile() {
  MOORING_RETURN_IF_ERROR(MakeDirectories());
  MOORING_ASSIGN_OR_RETURN(std::vector<std::string> ids, EntriesOf(directory_));
  std::erase_if(ids, [](const std::string& id) { return !IsVolumeId(id); });
  return ids;
}

}  // namespace mooring
