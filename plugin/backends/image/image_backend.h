// The default backend: a volume, or a snapshot, is a sparse image file, <directory>/<id>.img, that becomes a loop
// device where it is used.
//
// Thin: a single volume larger than what the filesystem has left is refused, the sum of all may exceed it.
// While an image is deleted or grown its lock is held, as it is by whoever attaches, formats or checks it, and by the
// programs that do (mounter/image/image.h): so a volume that another process is just staging is not deleted under it.
#ifndef MOORING_PLUGIN_BACKENDS_IMAGE_IMAGE_BACKEND_H_
#define MOORING_PLUGIN_BACKENDS_IMAGE_IMAGE_BACKEND_H_

#include <string>
#include <vector>

#include "base/file/real_directory.h"
#include "mounter/mounter.h"
#include "plugin/backends/backend.h"

namespace mooring {

class ImageBackend : public Backend {
 public:
  // `directory` is absolute, and made where it is missing, in a parent that is there: by the first call. With kRefuse
  // it is made at once; where it is missing later, its disk is away, and calls are FAILED_PRECONDITION.
  ImageBackend(std::string directory, LoopDevices& loops, Contents& contents, IfMissing if_missing = IfMissing::kMake);

  // OUT_OF_RANGE: larger than the filesystem has left, or than a file of it can be. A failure leaves no file.
  absl::Status Create(const VolumeDraft& draft) override;

  // OUT_OF_RANGE: a volume as in Create. RESOURCE_EXHAUSTED: no room for the data.
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override;

  // FAILED_PRECONDITION names the loop device over the image; ABORTED: another process has just got hold of it.
  absl::Status Delete(const std::string& id) override;

  absl::Status CheckUnused(const std::string& id) override;
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override;
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;
  absl::StatusOr<BackendCapacity> Capacity() const override;
  bool HoldsData(const std::string& id) const override;

  // Makes the directory where it is missing, removes what a killed mkfs or copy left beside the images, and undo files
  // without an image. Those that are being formatted or copied now are left alone.
  absl::StatusOr<std::vector<std::string>> Reconcile() override;

 private:
  std::string PathOf(const std::string& id) const;
  absl::Status RemoveBeside(const std::string& id);  // what formatting, growing and copying left
  absl::Status PrepareDirectory() const;
  absl::Status CheckSpace(std::uint64_t more_bytes) const;
  absl::Status WaitUntilUnused(const std::string& path);

  const std::string directory_;
  const IfMissing if_missing_;
  LoopDevices& loops_;
  Contents& contents_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKENDS_IMAGE_IMAGE_BACKEND_H_
