// The default backend: a volume or snapshot is a sparse image file, <directory>/<id>.img, which becomes a loop device
// when it is used.
//
// Provisioning is thin: a single volume may not be larger than the free space, and the sum of all volumes may.
// The backend locks an image while it deletes or grows it. Programs that attach, format or check an image hold the same
// lock (mounter/image/image.h). So no process deletes a volume that another process stages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file/real_directory.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"
#include "plugin/backends/interface/backend.h"
#include "plugin/backends/interface/backend_type.h"

namespace mooring {

inline constexpr std::string_view kImageSuffix = ".img";  // of the file of a volume or snapshot

class ImageBackend : public Backend {
 public:
  // `directory` is absolute. The first call creates it if it is missing; its parent must exist. With kRefuse the
  // constructor creates it. If it is missing later, its disk is not mounted, and calls are FAILED_PRECONDITION.
  // `shared`: other hosts use the directory, too.
  ImageBackend(std::string directory, LoopDevices& loops, Contents& contents, IfMissing if_missing = IfMissing::kMake,
               bool shared = false);

  // OUT_OF_RANGE: larger than the free space, or than a file can be. A failure leaves no file.
  absl::Status Create(const VolumeDraft& draft) override;

  // OUT_OF_RANGE as Create, for volumes. RESOURCE_EXHAUSTED: no room for the data.
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override;

  // FAILED_PRECONDITION: a loop device uses the image, and the error names it, or another host has attached it.
  // ABORTED: another process has locked it.
  absl::Status Delete(const std::string& id) override;
  absl::Status DeleteIfUnused(const std::string& id, const std::function<absl::Status()>& begin) override;

  absl::Status CheckUnused(const std::string& id) override;  // UNAVAILABLE: the filesystem of a shared pool is missing

  // FAILED_PRECONDITION: another host has attached the image, and the pool is not shared.
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override;
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;
  absl::StatusOr<BackendCapacity> Capacity() const override;
  bool HoldsData(const std::string& id) const override;

  // Creates the directory if it is missing. Removes files that a killed mkfs or copy left beside the images, and undo
  // files without an image. It skips images that are being formatted or copied.
  absl::StatusOr<std::vector<std::string>> Reconcile() override;

 private:
  std::string PathOf(const std::string& id) const;
  absl::Status RemoveBeside(const std::string& id);  // temporary files of formatting, growing and copying
  absl::Status PrepareDirectory() const;
  absl::Status CheckSpace(std::uint64_t more_bytes) const;
  absl::Status WaitUntilNoLoop(const std::string& path);
  absl::Status LockGrowth(const UniqueFd& fd, const std::string& path);

  const std::string directory_;
  const IfMissing if_missing_;
  const bool shared_;
  LoopDevices& loops_;
  Contents& contents_;
};

const BackendType& ImageBackendType();

}  // namespace mooring
