#include "mounter/copy.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/quote.h"
#include "base/status.h"
#include "mounter/copy_data.h"
#include "mounter/ext4_offline.h"
#include "mounter/filesystem.h"
#include "mounter/freeze.h"
#include "mounter/identity.h"
#include "mounter/image.h"
#include "mounter/loop_device.h"
#include "mounter/new_file.h"

namespace mooring {
namespace {

struct Job {
  ImageCopy copy;
  LockedImage source;
  std::unique_ptr<NewFile> file;
  ImageUse use;  // goes first: nobody waits for a freeze while a large file is removed

  bool mounted() const { return !use.filesystems.empty(); }
  bool written() const { return !use.written.empty(); }
  bool idle() const { return !mounted() && !written(); }
};

using Jobs = std::vector<Job>;

absl::StatusOr<std::pair<dev_t, ino_t>> IdentityOf(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return ErrnoStatus(errno, "find the image", path);
  return std::pair(status.st_dev, status.st_ino);
}

// In the order in which they are locked, which is the same for all: by inode.
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
      return InvalidArgument(fmt::format("{} is to be copied twice at a time", Quote(ordered[i].second->source)));
    }
    MOORING_RETURN_IF_ERROR(CheckCanRenew(ordered[i].second->renew_fs_type));
    jobs.emplace_back().copy = *ordered[i].second;
  }
  return jobs;
}

absl::Status CheckIsImage(const LockedImage& image) {
  if (S_ISREG(image.status.st_mode)) return absl::OkStatus();
  return FailedPrecondition(fmt::format("{} is no image file", Quote(image.path)));
}

absl::Status CheckSize(const Job& job) {
  const auto has = static_cast<std::uint64_t>(job.source.status.st_size);
  if (job.copy.bytes >= has) return absl::OkStatus();
  return InvalidArgument(
      fmt::format("a copy of {} has {} bytes or more, not {}", Quote(job.copy.source), has, job.copy.bytes));
}

absl::Status TakeBackCutShort(Job& job) {
  if (!HasUndoFile(job.source.path)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckUnattached(job.source));
  return TakeBack(job.source);
}

absl::Status Lock(Job& job, const SourcePolicy& policy) {
  MOORING_ASSIGN_OR_RETURN(job.source, LockImage(job.copy.source));
  MOORING_RETURN_IF_ERROR(policy.CheckBackingFile(job.source.fd, job.copy.source));
  MOORING_RETURN_IF_ERROR(CheckIsImage(job.source));
  MOORING_RETURN_IF_ERROR(CheckSize(job));
  return TakeBackCutShort(job);
}

// What a block device is written with meanwhile goes on: one instant of it is had by sharing alone, and of two of them
// there is none.
absl::Status CheckOneInstant(const Jobs& jobs) {
  const auto written = [](const Job& job) { return job.written(); };
  if (std::count_if(jobs.begin(), jobs.end(), written) < 2) return absl::OkStatus();
  return FailedPrecondition(
      "several of the volumes are in use as block devices, which cannot be frozen: no copy of them is of one instant; "
      "copy them one by one, or unpublish and unstage all but one");
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

// What is written to a frozen filesystem waits for the thaw, which would wait for that: nothing could end it.
absl::Status CheckNoneLiesOnFrozen(const Jobs& jobs) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<dev_t> devices, DevicesOfFiles(jobs));
  for (const Job& job : jobs) {
    for (const auto& filesystem : job.use.filesystems) {
      MOORING_ASSIGN_OR_RETURN(const dev_t frozen, filesystem->DeviceOfFiles());
      if (std::find(devices.begin(), devices.end(), frozen) == devices.end()) continue;
      return FailedPrecondition(
          fmt::format("an image or a copy lies in the filesystem that is mounted from {}, which has to stand still "
                      "meanwhile: move the pool out of that volume, or unmount the volume first",
                      Quote(job.source.path)));
    }
  }
  return absl::OkStatus();
}

absl::Status Sync(const Job& job) {
  for (const auto& filesystem : job.use.filesystems) MOORING_RETURN_IF_ERROR(filesystem->Sync());
  for (const UniqueFd& device : job.use.written) {
    if (::fsync(device.get()) != 0) return ErrnoStatus(errno, "sync the block device over", job.source.path);
  }
  return absl::OkStatus();
}

absl::Status CannotShare(const Job& job) {
  return FailedPrecondition(
      fmt::format("{} is in use as a block device, and the filesystem it lies on cannot share extents (xfs and btrfs "
                  "can): no copy is of one instant; unpublish and unstage the volume first",
                  Quote(job.source.path)));
}

// Before it is filled to the last byte, which the volumes that are there would feel.
absl::Status CheckRoom(const Job& job) {
  struct statvfs pool = {};
  if (::fstatvfs(job.file->fd().get(), &pool) != 0) return ErrnoStatus(errno, "ask for the space of", job.file->path());
  const std::uint64_t available = std::uint64_t{pool.f_bavail} * pool.f_frsize;
  const std::uint64_t needed = static_cast<std::uint64_t>(job.source.status.st_blocks) * 512;
  if (needed <= available) return absl::OkStatus();
  return ResourceExhausted(
      fmt::format("a copy of {} takes {} bytes, and the filesystem of {} has {} left: make room there",
                  Quote(job.source.path), needed, Quote(job.file->path()), available));
}

absl::Status CopyData(const Job& job) {
  MOORING_ASSIGN_OR_RETURN(const bool shared, ShareData(job.source.fd, job.file->fd(), job.source.path));
  if (shared) return absl::OkStatus();
  if (job.written()) return CannotShare(job);
  MOORING_RETURN_IF_ERROR(CheckRoom(job));
  return CopyExtents(job.source.fd, job.file->fd(), job.source.status.st_size, job.source.path);
}

absl::Status Thaw(const Job& job) {
  absl::Status thawed;
  for (const auto& filesystem : job.use.filesystems) thawed.Update(filesystem->Thaw());
  return thawed;
}

// After an error: all of them, before anything else is cleared up.
void ThawWhatIsFrozen(const Jobs& jobs) {
  for (const Job& job : jobs) {
    for (const auto& filesystem : job.use.filesystems) {
      if (filesystem->frozen()) filesystem->Thaw().IgnoreError();
    }
  }
}

absl::Status CopyIdle(const Jobs& jobs) {
  for (const Job& job : jobs) {
    if (job.idle()) MOORING_RETURN_IF_ERROR(CopyData(job));
  }
  return absl::OkStatus();
}

absl::Status FreezeAll(const Jobs& jobs) {
  for (const Job& job : jobs) {
    for (const auto& filesystem : job.use.filesystems) MOORING_RETURN_IF_ERROR(filesystem->Freeze());
  }
  return absl::OkStatus();
}

// From here to the last Thaw somebody may be waiting to write. What is written in spite of it is copied while all
// others stand still; then each goes on as soon as it is copied.
absl::Status CopyAtOneInstant(const Jobs& jobs) {
  const absl::Cleanup thaw = [&jobs] { ThawWhatIsFrozen(jobs); };
  MOORING_RETURN_IF_ERROR(FreezeAll(jobs));
  for (const Job& job : jobs) {
    if (job.written()) MOORING_RETURN_IF_ERROR(CopyData(job));
  }
  for (const Job& job : jobs) {
    if (!job.written() && job.mounted()) MOORING_RETURN_IF_ERROR(CopyData(job));
    MOORING_RETURN_IF_ERROR(Thaw(job));
  }
  return absl::OkStatus();
}

// A volume that was never staged holds no filesystem yet, and one that was written as a block device another one, or
// something else: that is nothing to renew.
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
  }
  MOORING_RETURN_IF_ERROR(CheckNoneLiesOnFrozen(jobs));
  MOORING_RETURN_IF_ERROR(CheckOneInstant(jobs));
  MOORING_RETURN_IF_ERROR(CopyIdle(jobs));  // nobody changes these while their lock is held
  for (const Job& job : jobs) MOORING_RETURN_IF_ERROR(Sync(job));
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
