// Volumes of memory. There is nothing of them but a tmpfs, from the first stage to the last unstage, which the node
// side mounts; between, and over a reboot, they are empty. That there is such a volume, and how large, an empty file of
// its size says: <directory>/<id>.
#ifndef MOORING_PLUGIN_BACKENDS_TMPFS_TMPFS_BACKEND_H_
#define MOORING_PLUGIN_BACKENDS_TMPFS_TMPFS_BACKEND_H_

#include <string>
#include <vector>

#include "mounter/mounter.h"
#include "plugin/backends/backend.h"

namespace mooring {

class TmpfsBackend final : public Backend {
 public:
  // `directory` is absolute, and made where it is missing, with the one above it. `bytes`: of all volumes together,
  // which the catalog keeps them to.
  TmpfsBackend(std::string directory, std::uint64_t bytes, Mounts& mounts);

  absl::Status Create(const VolumeDraft& draft) override;
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override;
  absl::Status CheckUnused(const std::string& id) override;
  absl::Status Delete(const std::string& id) override;
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override;
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;  // of no path
  absl::StatusOr<BackendCapacity> Capacity() const override;
  // The data is only in the mount, and CheckUnused keeps a mounted volume.
  bool HoldsData(const std::string& /*id*/) const override { return false; }
  absl::StatusOr<std::vector<std::string>> Reconcile() override;

 private:
  std::string PathOf(const std::string& id) const { return directory_ + "/" + id; }
  absl::Status MakeDirectories() const;
  absl::Status Write(const std::string& id, std::uint64_t bytes) const;

  const std::string directory_;
  const std::uint64_t bytes_;
  Mounts& mounts_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKENDS_TMPFS_TMPFS_BACKEND_H_
