// A request to stage a volume, and the mount and the record that follow from it.
#pragma once

#include <optional>
#include <string>

#include "plugin/model/volume_source.h"
#include "plugin/node/uses/node_store.h"

namespace mooring {

struct StageSpec {
  std::string volume_id;
  std::string staging_path;
  Capability capability;
  bool read_only = false;

  // Set if the volume is mounted at a target, without a staging path: NodeVolumes::PublishAlone.
  struct AsTarget {
    std::optional<Propagation> asked;
    Propagation propagation = Propagation::kInherit;
  };
  std::optional<AsTarget> as_target = std::nullopt;
};

// The beginning of a record: of a use that is not done.
VolumeUse NewUse(VolumeUse::Role role, const std::string& volume_id, const std::string& path,
                 const Capability& capability);

// For the mount at a staging path, or at a target without a staging path. A staging path is private, so that mounts
// that tasks make below a target do not appear in it.
MountFlags StagedFlags(const StageSpec& spec, const NodeVolume& volume);
Propagation StagedPropagation(const StageSpec& spec);
VolumeUse StagedUse(const StageSpec& spec);  // not done

}  // namespace mooring
