// For people who want no image: a volume is a directory, <directory>/<id>, that is bind mounted where it is used.
//
// Its size is a promise and no limit: nothing keeps a task from writing what the filesystem has. A single volume larger
// than what that has left is refused, the sum of all may exceed it.
//
// Tasks own what is in it, so it is removed by the mounter, which may; and under another name, <id>.deleting, so that a
// volume is either whole or gone.
#ifndef MOORING_PLUGIN_BACKENDS_DIRECTORY_DIRECTORY_BACKEND_H_
#define MOORING_PLUGIN_BACKENDS_DIRECTORY_DIRECTORY_BACKEND_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "mounter/mounter.h"
#include "plugin/backends/backend.h"

namespace mooring {

class DirectoryBackend final : public Backend {
 public:
  // `directory` is absolute, real, and there. New volumes have that mode: mounter/guard/source_guard.h.
  DirectoryBackend(std::string directory, Mounts& mounts, Contents& contents, mode_t new_mode = 0755);

  // OUT_OF_RANGE: larger than the filesystem has left. A failure leaves no directory.
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

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKENDS_DIRECTORY_DIRECTORY_BACKEND_H_
