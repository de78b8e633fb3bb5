#include "tests/fakes/fake_csi_volumes.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <utility>

#include "base/text/quote.h"

namespace mooring::testing {
namespace {

constexpr char kContextKey[] = "device";  // ControllerPublishVolume returns it, staging and publishing require it

std::int64_t Wanted(const csi::v1::CapacityRange& range) {
  constexpr std::int64_t kDefault = std::int64_t{1} << 30;
  if (range.required_bytes() > 0) return range.required_bytes();
  return range.limit_bytes() > 0 ? std::min(range.limit_bytes(), kDefault) : kDefault;
}

void Describe(const FakeCsiVolume& volume, csi::v1::Volume& message) {
  message.set_volume_id(volume.id);
  message.set_capacity_bytes(volume.bytes);
  (*message.mutable_volume_context())["made-by"] = "fake";
}

bool Is(const csi::v1::VolumeCapability& capability, csi::v1::VolumeCapability::AccessTypeCase type) {
  return capability.access_type_case() == type;
}

}  // namespace

void FakeCsiVolumes::MirrorInto(FakeMounter& kernel) {
  const std::lock_guard<std::mutex> lock(mutex_);
  kernel_ = &kernel;
}

void FakeCsiVolumes::Add(const std::string& id, std::int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  FakeCsiVolume& volume = volumes_[id];
  volume.id = id;
  volume.name = id;
  volume.bytes = bytes;
}

std::optional<FakeCsiVolume> FakeCsiVolumes::Find(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto volume = volumes_.find(id);
  return volume == volumes_.end() ? std::nullopt : std::optional(volume->second);
}

std::vector<std::string> FakeCsiVolumes::Ids() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, volume] : volumes_) ids.push_back(id);
  return ids;
}

std::size_t FakeCsiVolumes::staged_count() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::size_t count = 0;
  for (const auto& [id, volume] : volumes_) count += volume.staged.size();
  return count;
}

std::size_t FakeCsiVolumes::published_count() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::size_t count = 0;
  for (const auto& [id, volume] : volumes_) count += volume.published.size();
  return count;
}

absl::StatusOr<FakeCsiVolume*> FakeCsiVolumes::Get(const std::string& id) {
  if (id.empty()) return InvalidArgument("volume_id is missing");
  const auto volume = volumes_.find(id);
  if (volume == volumes_.end()) return NotFound("there is no volume {}", Quote(id));
  return &volume->second;
}

absl::Status FakeCsiVolumes::Create(const FakeCsiFeatures& features, const csi::v1::CreateVolumeRequest& request,
                                    csi::v1::CreateVolumeResponse& response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (request.name().empty()) return InvalidArgument("name is missing");
  if (request.volume_capabilities().empty()) return InvalidArgument("volume_capabilities are missing");
  std::int64_t bytes = Wanted(request.capacity_range());
  if (request.volume_content_source().has_volume()) {
    MOORING_ASSIGN_OR_RETURN(const FakeCsiVolume* const source,
                             Get(request.volume_content_source().volume().volume_id()));
    bytes = std::max(bytes, source->bytes);
  }
  if (request.volume_content_source().has_snapshot() &&
      !snapshots_.contains(request.volume_content_source().snapshot().snapshot_id())) {
    return NotFound("there is no such snapshot");
  }
  const auto same = std::find_if(volumes_.begin(), volumes_.end(),
                                 [&](const auto& entry) { return entry.second.name == request.name(); });
  if (same == volumes_.end()) {
    const std::string id = fmt::format("vol-{}", next_id_++);
    volumes_[id] = {.id = id,
                    .name = request.name(),
                    .bytes = bytes,
                    .attached = {},
                    .staged = {},
                    .published = {},
                    .expanded = {}};
    Describe(volumes_[id], *response.mutable_volume());
  } else {
    if (same->second.bytes < bytes) return AlreadyExists("a volume of that name has another size");
    Describe(same->second, *response.mutable_volume());
  }
  if (request.has_volume_content_source()) {
    *response.mutable_volume()->mutable_content_source() = request.volume_content_source();
  }
  if (!features.topology.empty()) {
    auto& segments = *response.mutable_volume()->add_accessible_topology()->mutable_segments();
    segments.insert(features.topology.begin(), features.topology.end());
  }
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::Delete(const csi::v1::DeleteVolumeRequest& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::StatusOr<FakeCsiVolume*> volume = Get(request.volume_id());
  if (absl::IsNotFound(volume.status())) return absl::OkStatus();
  if (!volume.ok()) return volume.status();
  const FakeCsiVolume& found = **volume;
  if (!found.attached.empty() || !found.staged.empty() || !found.published.empty()) {
    return FailedPrecondition("volume {} is in use", Quote(found.id));
  }
  volumes_.erase(request.volume_id());
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::Attach(const csi::v1::ControllerPublishVolumeRequest& request,
                                    csi::v1::ControllerPublishVolumeResponse& response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MOORING_ASSIGN_OR_RETURN(FakeCsiVolume* const volume, Get(request.volume_id()));
  if (request.node_id().empty()) return InvalidArgument("node_id is missing");
  if (!request.has_volume_capability()) return InvalidArgument("volume_capability is missing");
  volume->attached.insert(request.node_id());
  (*response.mutable_publish_context())[kContextKey] = "/dev/fake-" + volume->id;
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::Detach(const csi::v1::ControllerUnpublishVolumeRequest& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::StatusOr<FakeCsiVolume*> volume = Get(request.volume_id());
  if (absl::IsNotFound(volume.status())) return absl::OkStatus();
  if (!volume.ok()) return volume.status();
  if (!(*volume)->staged.empty() || !(*volume)->published.empty()) {
    return FailedPrecondition("volume {} is staged or published still", Quote(request.volume_id()));
  }
  if (request.node_id().empty()) {
    (*volume)->attached.clear();
  } else {
    (*volume)->attached.erase(request.node_id());
  }
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::Validate(const csi::v1::ValidateVolumeCapabilitiesRequest& request,
                                      csi::v1::ValidateVolumeCapabilitiesResponse& response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MOORING_ASSIGN_OR_RETURN(const FakeCsiVolume* const volume, Get(request.volume_id()));
  (void)volume;
  if (request.volume_capabilities().empty()) return InvalidArgument("volume_capabilities are missing");
  *response.mutable_confirmed()->mutable_volume_context() = request.volume_context();
  *response.mutable_confirmed()->mutable_volume_capabilities() = request.volume_capabilities();
  *response.mutable_confirmed()->mutable_parameters() = request.parameters();
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::List(csi::v1::ListVolumesResponse& response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [id, volume] : volumes_) {
    auto& entry = *response.add_entries();
    Describe(volume, *entry.mutable_volume());
    for (const std::string& node : volume.attached) entry.mutable_status()->add_published_node_ids(node);
  }
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::Expand(const FakeCsiFeatures& features,
                                    const csi::v1::ControllerExpandVolumeRequest& request,
                                    csi::v1::ControllerExpandVolumeResponse& response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MOORING_ASSIGN_OR_RETURN(FakeCsiVolume* const volume, Get(request.volume_id()));
  if (!request.has_capacity_range()) return InvalidArgument("capacity_range is missing");
  volume->bytes = std::max(volume->bytes, Wanted(request.capacity_range()));
  response.set_capacity_bytes(volume->bytes);
  response.set_node_expansion_required(features.node_expands);
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::CreateSnapshot(const csi::v1::CreateSnapshotRequest& request,
                                            csi::v1::CreateSnapshotResponse& response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MOORING_ASSIGN_OR_RETURN(const FakeCsiVolume* const source, Get(request.source_volume_id()));
  if (request.name().empty()) return InvalidArgument("name is missing");
  const auto [name, is_new] = snapshot_names_.try_emplace(request.name(), fmt::format("snap-{}", next_id_));
  if (is_new) {
    ++next_id_;
    csi::v1::Snapshot& snapshot = snapshots_[name->second];
    snapshot.set_snapshot_id(name->second);
    snapshot.set_source_volume_id(source->id);
    snapshot.set_size_bytes(source->bytes);
    snapshot.mutable_creation_time()->set_seconds(1700000000);
    snapshot.set_ready_to_use(true);
  }
  if (snapshots_[name->second].source_volume_id() != source->id) return AlreadyExists("it is of another volume");
  *response.mutable_snapshot() = snapshots_[name->second];
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::DeleteSnapshot(const csi::v1::DeleteSnapshotRequest& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  snapshots_.erase(request.snapshot_id());
  std::erase_if(snapshot_names_, [&](const auto& name) { return name.second == request.snapshot_id(); });
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::ListSnapshots(csi::v1::ListSnapshotsResponse& response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [id, snapshot] : snapshots_) *response.add_entries()->mutable_snapshot() = snapshot;
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::CheckAttached(const FakeCsiFeatures& features, const FakeCsiVolume& volume,
                                           const google::protobuf::Map<std::string, std::string>& publish_context) {
  if (!features.controller || !features.attaches) return absl::OkStatus();
  if (!volume.attached.contains(features.node_id)) {
    return FailedPrecondition("volume {} is not attached to {}", Quote(volume.id), features.node_id);
  }
  if (!publish_context.contains(kContextKey)) return InvalidArgument("the publish context is not that of the volume");
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::Stage(const FakeCsiFeatures& features, const csi::v1::NodeStageVolumeRequest& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MOORING_ASSIGN_OR_RETURN(FakeCsiVolume* const volume, Get(request.volume_id()));
  if (request.staging_target_path().empty()) return InvalidArgument("staging_target_path is missing");
  if (!request.has_volume_capability()) return InvalidArgument("volume_capability is missing");
  MOORING_RETURN_IF_ERROR(CheckAttached(features, *volume, request.publish_context()));
  const std::string capability = request.volume_capability().SerializeAsString();
  const auto [staged, is_new] = volume->staged.try_emplace(request.staging_target_path(), capability);
  if (staged->second != capability) return AlreadyExists("it is staged there with another capability");
  // CSI leaves it to the plugin what it does at a block volume's staging path; this one does nothing.
  if (is_new && !Is(request.volume_capability(), csi::v1::VolumeCapability::kBlock)) {
    Mirror(*volume, request.staging_target_path(), request.volume_capability(), false);
  }
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::Unstage(const csi::v1::NodeUnstageVolumeRequest& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MOORING_ASSIGN_OR_RETURN(FakeCsiVolume* const volume, Get(request.volume_id()));
  for (const auto& [target, published] : volume->published) {
    if (published.staging_path == request.staging_target_path()) {
      return FailedPrecondition("it is published at {} still", Quote(target));
    }
  }
  MOORING_RETURN_IF_ERROR(Unmirror(request.staging_target_path(), /*remove=*/false));
  volume->staged.erase(request.staging_target_path());
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::Publish(const FakeCsiFeatures& features,
                                     const csi::v1::NodePublishVolumeRequest& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MOORING_ASSIGN_OR_RETURN(FakeCsiVolume* const volume, Get(request.volume_id()));
  if (request.target_path().empty()) return InvalidArgument("target_path is missing");
  if (!request.has_volume_capability()) return InvalidArgument("volume_capability is missing");
  MOORING_RETURN_IF_ERROR(CheckAttached(features, *volume, request.publish_context()));
  if (features.stages && !volume->staged.contains(request.staging_target_path())) {
    return FailedPrecondition("it is not staged at {}", Quote(request.staging_target_path()));
  }
  const FakeCsiVolume::Published wanted{.staging_path = request.staging_target_path(),
                                        .read_only = request.readonly(),
                                        .capability = request.volume_capability().SerializeAsString()};
  const auto [published, is_new] = volume->published.try_emplace(request.target_path(), wanted);
  if (published->second.read_only != wanted.read_only || published->second.capability != wanted.capability) {
    return AlreadyExists("it is published there in another way");
  }
  if (is_new) {
    Mirror(*volume, request.target_path(), request.volume_capability(), request.readonly() && features.obeys_readonly);
  }
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::Unpublish(const csi::v1::NodeUnpublishVolumeRequest& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MOORING_ASSIGN_OR_RETURN(FakeCsiVolume* const volume, Get(request.volume_id()));
  MOORING_RETURN_IF_ERROR(Unmirror(request.target_path(), /*remove=*/true));
  volume->published.erase(request.target_path());
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::NodeExpand(const csi::v1::NodeExpandVolumeRequest& request,
                                        csi::v1::NodeExpandVolumeResponse& response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MOORING_ASSIGN_OR_RETURN(FakeCsiVolume* const volume, Get(request.volume_id()));
  if (!volume->published.contains(request.volume_path()) && !volume->staged.contains(request.volume_path())) {
    return NotFound("it is not at {}", Quote(request.volume_path()));
  }
  volume->expanded[request.volume_path()] = request.capacity_range().required_bytes();
  response.set_capacity_bytes(volume->bytes);
  return absl::OkStatus();
}

absl::Status FakeCsiVolumes::Stats(const csi::v1::NodeGetVolumeStatsRequest& request,
                                   csi::v1::NodeGetVolumeStatsResponse& response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MOORING_ASSIGN_OR_RETURN(const FakeCsiVolume* const volume, Get(request.volume_id()));
  auto& usage = *response.add_usage();
  usage.set_unit(csi::v1::VolumeUsage::BYTES);
  usage.set_total(volume->bytes);
  usage.set_available(volume->bytes);
  return absl::OkStatus();
}

// All mounts of a volume have the same device. A block volume is the node of a loop device, which the fake kernel
// knows.
void FakeCsiVolumes::Mirror(const FakeCsiVolume& volume, const std::string& path,
                            const csi::v1::VolumeCapability& capability, bool read_only) {
  if (kernel_ == nullptr) return;
  const unsigned number = 1 + static_cast<unsigned>(std::hash<std::string>{}(volume.id) % 60000);
  ListedMount info;
  info.target = path;
  info.root = "/";
  info.fs_type = capability.mount().fs_type().empty() ? "ext4" : capability.mount().fs_type();
  info.source = volume.id;
  info.device = makedev(259, number);
  info.flags.read_only = read_only;
  kernel_->With([&](FakeKernel& kernel) {
    if (!Is(capability, csi::v1::VolumeCapability::kBlock)) {
      if (!kernel.Exists(path)) kernel.AddDirectory(path);
      kernel.AddMount(info);
      return;
    }
    kernel.AddFile(path, 0);
    const std::string image = "/fake-csi/" + volume.id;
    if (!kernel.Exists(image)) kernel.AddFile(image, static_cast<std::uint64_t>(volume.bytes));
    const auto loop = kernel.AttachLoop({.backing_file = image, .label = volume.id});
    if (loop.ok()) {
      kernel
          .Bind({.source = loop->device,
                 .target = path,
                 .target_kind = TargetKind::kFile,
                 .flags = info.flags,
                 .group = std::nullopt,
                 .new_root = std::nullopt})
          .IgnoreError();
    }
  });
}

absl::Status FakeCsiVolumes::Unmirror(const std::string& path, bool remove) {
  if (kernel_ == nullptr) return absl::OkStatus();
  return kernel_->With([&](FakeKernel& kernel) { return kernel.Unmount({.target = path, .remove_target = remove}); });
}

}  // namespace mooring::testing
