// Stages volumes without a device: directories and memory.
#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/backends/registry.h"
#include "plugin/node/node_volumes.h"

namespace mooring {
namespace {

BindRequest BindToStage(const StageSpec& spec, const NodeVolume& volume, const std::string& source) {
  BindRequest request;
  request.source = source;
  request.target = spec.staging_path;
  request.flags = StagedFlags(spec, volume);
  request.propagation = StagedPropagation(spec);
  request.group = spec.capability.mount_group;
  return request;
}

}  // namespace

Staging StagingOf(const NodeVolume& volume) { return TraitsOf(volume.kind).staging; }

absl::Status CheckSuits(const NodeVolume& volume, const Capability& capability) {
  MOORING_RETURN_IF_ERROR(CheckMode(volume.id, volume.block_only, capability));
  const BackendTraits& traits = TraitsOf(volume.kind);
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument(fmt::format("volume {}: {}", volume.id, why));
  };
  if (capability.access_type == AccessType::kBlock) {
    if (traits.block) return absl::OkStatus();
    return refuse(fmt::format("block access: a volume of the backend {} is no block device", ToString(volume.kind)));
  }
  if (!traits.fs_types.empty()) return absl::OkStatus();
  if (!capability.fs_type.empty()) {
    return refuse(fmt::format("fs_type {}: the backend {} leaves no choice, name none", Quote(capability.fs_type),
                              ToString(volume.kind)));
  }
  if (capability.options.options.empty()) return absl::OkStatus();
  return refuse(fmt::format("mount flag {}: the backend {} takes those of a mount alone, as ro, noexec and noatime",
                            Quote(capability.options.options.front().key), ToString(volume.kind)));
}

// It has an inode for each page: empty files take kernel memory that the size does not limit.
std::vector<FilesystemOption> MemoryOptions(std::uint64_t bytes) {
  constexpr std::uint64_t kPage = 4096, kFewestInodes = 64;
  return {{"size", fmt::format("{}", bytes)}, {"nr_inodes", fmt::format("{}", std::max(bytes / kPage, kFewestInodes))}};
}

absl::Status NodeVolumes::StageDirectory(const StageSpec& spec, const NodeVolume& volume) {
  return PutStaged(spec, [&] { return mounter_.Bind(BindToStage(spec, volume, volume.path)); });
}

// The path at which the tmpfs is mounted, by a record or by the mount table. A volume has one tmpfs, so that all its
// mounts show the same files.
absl::StatusOr<std::optional<std::string>> NodeVolumes::FindMemory(const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  for (const VolumeUse& use : uses) {
    MOORING_ASSIGN_OR_RETURN(const bool live, IsLive(use));
    if (live) return std::optional<std::string>(use.path);
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, mounter_.List("/"));
  for (const MountInfo& mount : mounts) {
    if (mount.fs_type != "tmpfs" || OwnerOf(mount) != volume_id) continue;
    // Another mount may hide it, and a mount of a subdirectory is not the volume.
    MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounter_.Find(mount.target));
    if (place.mount && place.mount->id == mount.id && mount.root == "/")
      return std::optional<std::string>(mount.target);
  }
  return std::optional<std::string>();
}

absl::Status NodeVolumes::StageMemory(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<std::string> there, FindMemory(volume.id));
  if (there) {
    return PutStaged(spec, [&] { return mounter_.Bind(BindToStage(spec, volume, *there)); });
  }
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
  return PutStaged(spec, [&] { return mounter_.Mount(request); });
}

}  // namespace mooring
