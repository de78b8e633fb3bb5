// Volumes in memory. The node side mounts a tmpfs from the first stage to the last unstage. After that, and after a
// reboot, a volume is empty. A sparse file of its size, <directory>/<id>, records that the volume exists.
#ifndef MOORING_PLUGIN_BACKENDS_TMPFS_TMPFS_BACKEND_H_
#define MOORING_PLUGIN_BACKENDS_TMPFS_TMPFS_BACKEND_H_

#include <string>
#include <vector>

#include "mounter/mounter.h"
#include "plugin/backends/interface/backend.h"
#include "plugin/backends/interface/backend_type.h"

namespace mooring {

class TmpfsBackend final : public Backend {
 public:
  // `directory` is absolute; it and its parent are created if they are missing. `bytes`: the limit of the sum of all
  // volumes, which the catalog enforces.
  TmpfsBackend(std::string directory, std::uint64_t bytes, Mounts& mounts);

  absl::Status Create(const VolumeDraft& draft) override;
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override;
  absl::Status CheckUnused(const std::string& id) override;
  absl::Status Delete(const std::string& id) override;
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override;
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;  // without a path
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

const BackendType& TmpfsBackendType();

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKENDS_TMPFS_TMPFS_BACKEND_H_
