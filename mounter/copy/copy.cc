#include "mounter/copy/copy.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/copy/copy_data.h"
#include "mounter/copy/copy_instant.h"
#include "mounter/copy/freeze.h"
#include "mounter/filesystem/ext4_offline.h"
#include "mounter/filesystem/filesystem.h"
#include "mounter/filesystem/identity.h"
#include "mounter/image/image.h"
#include "mounter/loop/attachment_lock.h"
#include "mounter/loop/loop_device.h"

namespace mooring {
namespace {

using Job = CopyJob;
using Jobs = std::vector<Job>;

absl::StatusOr<std::pair<dev_t, ino_t>> IdentityOf(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return ErrnoStatus(errno, "find the image", path);
  return std::pair(status.st_dev, status.st_ino);
}

// All calls lock the images in this order, by inode, so that none waits for another for ever.
absl::StatusOr<Jobs> InOrder(const std::vector<ImageCopy>& copies) {
  std::vector<std::pair<std::pair<dev_t, ino_t>, const ImageCopy*>> ordered;
  for (const ImageCopy& copy : copies) {
    MOORING_ASSIGN_OR_RETURN(const auto identity, IdentityOf(copy.source));
    ordered.emplace_back(identity, &copy);
  }
  std::sort(ordered.begin(), ordered.end());
  Jobs jobs;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (i > 0 && ordered[i].first == ordered[i - 1].first) {
      return InvalidArgument("{} is named twice as a source of one copy", Quote(ordered[i].second->source));
    }
    MOORING_RETURN_IF_ERROR(CheckCanRenew(ordered[i].second->renew_fs_type));
    jobs.emplace_back().copy = *ordered[i].second;
  }
  return jobs;
}

absl::Status CheckIsImage(const LockedImage& image) {
  if (S_ISREG(image.status.st_mode)) return absl::OkStatus();
  return FailedPrecondition("{} is no image file", Quote(image.path));
}

absl::Status CheckSize(const Job& job) {
  const auto has = static_cast<std::uint64_t>(job.source.status.st_size);
  if (job.copy.bytes >= has) return absl::OkStatus();
  return InvalidArgument("a copy of {} has {} bytes or more, not {}", Quote(job.copy.source), has, job.copy.bytes);
}

absl::Status UndoCutShort(Job& job) {
  MOORING_ASSIGN_OR_RETURN(const bool is_cut_short, HasUndoFile(job.source.path));
  if (!is_cut_short) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const UniqueFd unattached, LockUnattached(job.source));
  return UndoUnfinished(job.source);
}

absl::Status Lock(Job& job, const SourcePolicy& policy) {
  MOORING_ASSIGN_OR_RETURN(job.source, LockImage(job.copy.source));
  MOORING_RETURN_IF_ERROR(policy.CheckBackingFile(job.source.fd, job.copy.source));
  MOORING_RETURN_IF_ERROR(CheckIsImage(job.source));
  MOORING_RETURN_IF_ERROR(CheckSize(job));
  return UndoCutShort(job);
}

absl::StatusOr<std::vector<dev_t>> DevicesOfFiles(const Jobs& jobs) {
  std::vector<dev_t> devices;
  for (const Job& job : jobs) {
    struct stat status = {};
    if (::fstat(job.file->fd().get(), &status) != 0) return ErrnoStatus(errno, "look at", job.file->working_path());
    devices.push_back(status.st_dev);
    devices.push_back(job.source.status.st_dev);
  }
  return devices;
}

// A write to a frozen filesystem waits for the thaw. A copy that lies there would wait for itself.
absl::Status CheckNoneLiesOnFrozen(const Jobs& jobs) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<dev_t> devices, DevicesOfFiles(jobs));
  for (const Job& job : jobs) {
    for (const auto& filesystem : job.use.filesystems) {
      MOORING_ASSIGN_OR_RETURN(const dev_t frozen, filesystem->DeviceOfFiles());
      if (std::find(devices.begin(), devices.end(), frozen) == devices.end()) continue;
      return FailedPrecondition(
          "an image or a copy lies in the filesystem that is mounted from {}, which the copy has to freeze: move the "
          "pool out of that volume, or unmount the volume first",
          Quote(job.source.path));
    }
  }
  return absl::OkStatus();
}

absl::Status CopyIdle(const Job& job) {
  MOORING_ASSIGN_OR_RETURN(const bool shared, ShareData(job.source.fd, job.file->fd(), job.source.path));
  if (shared) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckRoom(job));
  return CopyExtents(job.source.fd, job.file->fd(), job.source.status.st_size, job.source.path);
}

absl::Status CopyIdle(const Jobs& jobs) {
  for (const Job& job : jobs) {
    if (job.idle()) MOORING_RETURN_IF_ERROR(CopyIdle(job));
  }
  return absl::OkStatus();
}

// A volume that was never staged holds no filesystem yet. A block volume may hold another filesystem, or other data.
// Neither is renewed.
absl::Status Renew(const NewFile& file, const std::string& fs_type) {
  if (fs_type.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const FilesystemInfo found, ProbeFilesystem(file.working_path()));
  if (found.content != FilesystemInfo::Content::kFilesystem || found.type != fs_type) return absl::OkStatus();
  return RenewIdentity(file.working_path(), fs_type, file.fd());
}

absl::Status Finish(const Job& job) {
  const NewFile& file = *job.file;
  if (::ftruncate(file.fd().get(), static_cast<off_t>(job.copy.bytes)) != 0) {
    return ErrnoStatus(errno, fmt::format("give {} bytes to", job.copy.bytes), file.working_path());
  }
  MOORING_RETURN_IF_ERROR(Renew(file, job.copy.renew_fs_type));
  return ::fdatasync(file.fd().get()) == 0 ? absl::OkStatus()
                                           : ErrnoStatus(errno, "write to disk", file.working_path());
}

absl::Status PublishAll(Jobs& jobs) {
  for (const Job& job : jobs) MOORING_RETURN_IF_ERROR(job.file->Publish());
  for (const Job& job : jobs) MOORING_RETURN_IF_ERROR(job.file->SyncDirectory());
  for (const Job& job : jobs) job.file->Keep();
  return absl::OkStatus();
}

}  // namespace

absl::Status CopyImages(const std::vector<ImageCopy>& copies, const SourcePolicy& policy) {
  MOORING_ASSIGN_OR_RETURN(Jobs jobs, InOrder(copies));
  for (Job& job : jobs) {
    MOORING_ASSIGN_OR_RETURN(job.file, NewFile::Make(job.copy.destination, policy));
  }
  for (Job& job : jobs) MOORING_RETURN_IF_ERROR(Lock(job, policy));
  for (Job& job : jobs) {
    MOORING_ASSIGN_OR_RETURN(job.use, FindUse(job.source));
    // Other hosts may go on reading the image.
    if (job.idle()) MOORING_RETURN_IF_ERROR(LockAttachment(job.source.fd, job.source.path, ImageAccess::kRead));
  }
  MOORING_RETURN_IF_ERROR(CheckNoneLiesOnFrozen(jobs));
  MOORING_RETURN_IF_ERROR(CopyIdle(jobs));  // the locks keep these from being changed
  MOORING_RETURN_IF_ERROR(CopyAtOneInstant(jobs));
  for (Job& job : jobs) {
    job.use = {};
    job.source.fd.reset();
  }
  for (const Job& job : jobs) MOORING_RETURN_IF_ERROR(Finish(job));
  return PublishAll(jobs);
}

absl::Status ThawImage(const std::string& path, const SourcePolicy& policy) {
  MOORING_ASSIGN_OR_RETURN(const LockedImage image, LockImage(path));
  MOORING_RETURN_IF_ERROR(policy.CheckBackingFile(image.fd, path));
  MOORING_ASSIGN_OR_RETURN(const ImageUse use, FindUse(image));
  for (const auto& filesystem : use.filesystems) MOORING_RETURN_IF_ERROR(filesystem->ThawFully());
  return absl::OkStatus();
}

}  // namespace mooring
