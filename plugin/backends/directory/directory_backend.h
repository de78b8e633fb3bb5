// A volume is a directory, <directory>/<id>, which is bind mounted where it is used.
//
// Its size is no limit: a task can fill the filesystem. A single volume may not be larger than the free space, and the
// sum of all volumes may.
//
// The files of a volume belong to tasks, so the mounter, which is privileged, removes them. The directory is renamed to
// <id>.deleting first, so that a volume is either whole or gone.
#ifndef MOORING_PLUGIN_BACKENDS_DIRECTORY_DIRECTORY_BACKEND_H_
#define MOORING_PLUGIN_BACKENDS_DIRECTORY_DIRECTORY_BACKEND_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "mounter/mounter.h"
#include "plugin/backends/interface/backend.h"
#include "plugin/backends/interface/backend_type.h"

namespace mooring {

class DirectoryBackend final : public Backend {
 public:
  // `directory` is absolute, exists, and its path has no symbolic link. `new_mode`: of the directories of new volumes
  // (mounter/guard/source_guard.h).
  DirectoryBackend(std::string directory, Mounts& mounts, Contents& contents, mode_t new_mode = 0755);

  // OUT_OF_RANGE: larger than the free space. A failure leaves no directory.
  absl::Status Create(const VolumeDraft& draft) override;
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override;
  absl::Status CheckUnused(const std::string& id) override;
  absl::Status Delete(const std::string& id) override;
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override;
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

const BackendType& DirectoryBackendType();

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKENDS_DIRECTORY_DIRECTORY_BACKEND_H_
