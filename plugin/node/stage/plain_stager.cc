#include "plugin/node/stage/plain_stager.h"

#include <vector>

#include "base/status.h"
#include "plugin/model/volume_mount.h"
#include "plugin/node/uses/volume_kind.h"

namespace mooring {

absl::Status PlainStager::BindFrom(const std::string& source, const StageSpec& spec, const NodeVolume& volume) {
  BindRequest request;
  request.source = source;
  request.target = spec.staging_path;
  request.flags = StagedFlags(spec, volume);
  request.propagation = StagedPropagation(spec);
  request.group = spec.capability.mount_group;
  return store_.MountOnRecord(StagedUse(spec), [&] { return mounts_.Bind(request); });
}

absl::Status PlainStager::StageDirectory(const StageSpec& spec, const NodeVolume& volume) {
  return BindFrom(volume.path, spec, volume);
}

// The path at which the tmpfs is mounted, by a record or by the mount table.
absl::StatusOr<std::optional<std::string>> PlainStager::FindMemory(const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known,
                           finder_.FindLive(volume_id, [](const VolumeUse&) { return true; }));
  if (known) return known->path;
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, mounts_.List("/"));
  for (const MountInfo& mount : mounts) {
    if (mount.fs_type != "tmpfs" || OwnerOf(mount) != volume_id) continue;
    // Another mount may hide it, and a mount of a subdirectory is not the volume.
    MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounts_.Find(mount.target));
    if (place.mount && place.mount->id == mount.id && mount.root == "/") return mount.target;
  }
  return std::nullopt;
}

absl::Status PlainStager::StageMemory(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<std::string> there, FindMemory(volume.id));
  if (there) return BindFrom(*there, spec, volume);
  MountRequest request;
  request.source = LabelFor(volume.id);
  request.fs_type = "tmpfs";
  request.target = spec.staging_path;
  request.flags = StagedFlags(spec, volume);
  request.options = MemoryOptions(volume.bytes);
  request.options.push_back({"mode", "0755"});
  request.options.push_back({"huge", "never"});  // otherwise a file of one byte takes 2 MiB
  request.propagation = StagedPropagation(spec);
  request.group = spec.capability.mount_group;
  return store_.MountOnRecord(StagedUse(spec), [&] { return mounts_.Mount(request); });
}

}  // namespace mooring
