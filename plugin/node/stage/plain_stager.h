// Stages volumes without a device: directories are bound, and memory is a tmpfs. The first staging mounts the tmpfs.
// Later stagings and targets bind it, so all of them show the same files. It ends with the last mount.
//
// It keeps no state. The caller holds the locks of the volume and of the path.
#ifndef MOORING_PLUGIN_NODE_STAGE_PLAIN_STAGER_H_
#define MOORING_PLUGIN_NODE_STAGE_PLAIN_STAGER_H_

#include <optional>
#include <string>

#include "plugin/node/stage/stage_spec.h"
#include "plugin/node/uses/volume_finder.h"

namespace mooring {

class PlainStager {
 public:
  PlainStager(Mounts& mounts, NodeStore& store, VolumeFinder& finder)
      : mounts_(mounts), store_(store), finder_(finder) {}

  absl::Status StageDirectory(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageMemory(const StageSpec& spec, const NodeVolume& volume);

 private:
  absl::StatusOr<std::optional<std::string>> FindMemory(const std::string& volume_id);
  absl::Status BindFrom(const std::string& source, const StageSpec& spec, const NodeVolume& volume);

  Mounts& mounts_;
  NodeStore& store_;
  VolumeFinder& finder_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_NODE_STAGE_PLAIN_STAGER_H_
