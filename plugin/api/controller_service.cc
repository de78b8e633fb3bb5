#include "plugin/api/controller_service.h"

#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "mounter/propagation.h"
#include "plugin/api/controller_requests.h"
#include "plugin/api/request_fields.h"
#include "plugin/api/snapshot_requests.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

// The health of a volume: its storage, and its mounts on this node.
void SetCondition(const VolumeInfo& volume, const NodeVolumes::Problems& in_use, csi::v1::VolumeCondition& condition) {
  const auto mounted = in_use.find(volume.id);
  std::string problem = volume.problem;
  if (mounted != in_use.end()) problem += (problem.empty() ? "" : "; ") + mounted->second;
  condition.set_abnormal(!problem.empty());
  condition.set_message(problem.empty() ? "healthy" : problem);
}

absl::Status WithCommandsToFree(const absl::Status& status, std::initializer_list<std::string> groups) {
  std::string commands;
  for (const std::string& group : groups) commands += (commands.empty() || group.empty() ? "" : "; ") + group;
  if (commands.empty()) return status;
  return FailedPrecondition("{}. If the orchestrator has forgotten it, run where the plugin runs: {}", Message(status),
                            commands);
}

}  // namespace

// Conversions to answers.

absl::StatusOr<csi::v1::CreateVolumeResponse> ControllerService::Create(const csi::v1::CreateVolumeRequest& request,
                                                                        const Call& call) {
  const ContentSource wanted = ContentSourceOf(request);
  const auto source = wanted.exists() ? catalog_.FindSource(wanted) : CopySource();
  const SourceFacts facts = source.ok() ? SourceFacts{source->fs_type, source->pool} : SourceFacts();
  MOORING_ASSIGN_OR_RETURN(const CreateVolumeSpec spec, ParseCreateVolume(request, catalog_.pools(), facts));
  MOORING_ASSIGN_OR_RETURN(const VolumeInfo volume, catalog_.Create(spec, call));
  csi::v1::CreateVolumeResponse response;
  Pack(volume, *response.mutable_volume());
  return response;
}

absl::StatusOr<csi::v1::DeleteVolumeResponse> ControllerService::Delete(const csi::v1::DeleteVolumeRequest& request,
                                                                        const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const std::string volume_id, Required("volume_id", request.volume_id()));
  const absl::Status deleted =
      catalog_.Delete(volume_id, call, [this](const std::string& id) { return uses_.HasStagedDevice(id); });
  if (absl::IsFailedPrecondition(deleted)) {
    // In the order in which they succeed: a volume that is mounted cannot be unpublished by the controller.
    return WithCommandsToFree(deleted, {uses_.CommandsToFree(volume_id), catalog_.CommandsToUnpublish(volume_id)});
  }
  MOORING_RETURN_IF_ERROR(deleted);
  return csi::v1::DeleteVolumeResponse();
}

absl::StatusOr<csi::v1::ControllerPublishVolumeResponse> ControllerService::Publish(
    const csi::v1::ControllerPublishVolumeRequest& request, const Call& call) {
  // Valid mount flags depend on the filesystem of the volume. Wrong arguments are reported even if the volume is
  // unknown.
  const absl::StatusOr<VolumeInfo> volume = catalog_.Get(request.volume_id());
  MOORING_ASSIGN_OR_RETURN(const ControllerPublishSpec spec,
                           ParseControllerPublish(request, volume.ok() ? volume->fs_type : kDefaultFsType));
  const auto is_used_here = [this](const std::string& id) {
    const absl::StatusOr<std::vector<std::string>> paths = uses_.LivePaths(id);
    return paths.ok() && !paths->empty();
  };
  MOORING_RETURN_IF_ERROR(catalog_.Publish(spec, call, is_used_here));
  csi::v1::ControllerPublishVolumeResponse response;
  if (spec.read_only) (*response.mutable_publish_context())[std::string(kReadOnlyContext)] = "true";
  return response;
}

absl::StatusOr<csi::v1::ControllerUnpublishVolumeResponse> ControllerService::Unpublish(
    const csi::v1::ControllerUnpublishVolumeRequest& request, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const ControllerUnpublishSpec spec, ParseControllerUnpublish(request));
  MOORING_RETURN_IF_ERROR(catalog_.Unpublish(spec, call));
  return csi::v1::ControllerUnpublishVolumeResponse();
}

absl::StatusOr<csi::v1::ValidateVolumeCapabilitiesResponse> ControllerService::Validate(
    const csi::v1::ValidateVolumeCapabilitiesRequest& request, const Call&) {
  MOORING_ASSIGN_OR_RETURN(const std::string volume_id, ParseValidate(request));
  MOORING_ASSIGN_OR_RETURN(const VolumeInfo volume, catalog_.Get(volume_id));
  csi::v1::ValidateVolumeCapabilitiesResponse response;
  response.set_message(Message(CheckConfirmed(volume, request, catalog_.pools())));
  if (!response.message().empty()) return response;
  auto& confirmed = *response.mutable_confirmed();
  *confirmed.mutable_volume_context() = request.volume_context();
  *confirmed.mutable_volume_capabilities() = request.volume_capabilities();
  *confirmed.mutable_parameters() = request.parameters();
  *confirmed.mutable_mutable_parameters() = request.mutable_parameters();
  return response;
}

absl::StatusOr<csi::v1::ListVolumesResponse> ControllerService::List(const csi::v1::ListVolumesRequest& request,
                                                                     const Call&) {
  MOORING_ASSIGN_OR_RETURN(const PageSpec spec, ParseListVolumes(request));
  MOORING_ASSIGN_OR_RETURN(const VolumePage page, catalog_.List(spec));
  std::set<std::string> ids;
  for (const VolumeInfo& volume : page.volumes) ids.insert(volume.id);
  MOORING_ASSIGN_OR_RETURN(const NodeVolumes::Problems problems, uses_.FindProblems(ids));
  csi::v1::ListVolumesResponse response;
  for (const VolumeInfo& volume : page.volumes) {
    auto& entry = *response.add_entries();
    Pack(volume, *entry.mutable_volume());
    entry.mutable_status()->mutable_published_node_ids()->Assign(volume.published_nodes.begin(),
                                                                 volume.published_nodes.end());
    SetCondition(volume, problems, *entry.mutable_status()->mutable_volume_condition());
  }
  if (page.next) response.set_next_token(ListToken(kListVolumes, *page.next));
  return response;
}

absl::StatusOr<csi::v1::GetCapacityResponse> ControllerService::Capacity(const csi::v1::GetCapacityRequest& request,
                                                                         const Call&) {
  MOORING_ASSIGN_OR_RETURN(const CapacityInfo capacity, catalog_.Capacity(ParseGetCapacity(request, catalog_.pools())));
  csi::v1::GetCapacityResponse response;
  response.set_available_capacity(static_cast<std::int64_t>(capacity.available));
  response.mutable_maximum_volume_size()->set_value(static_cast<std::int64_t>(capacity.largest));
  response.mutable_minimum_volume_size()->set_value(static_cast<std::int64_t>(capacity.smallest));
  return response;
}

absl::StatusOr<csi::v1::ControllerGetCapabilitiesResponse> ControllerService::Capabilities(
    const csi::v1::ControllerGetCapabilitiesRequest&, const Call&) {
  using Type = csi::v1::ControllerServiceCapability::RPC;
  csi::v1::ControllerGetCapabilitiesResponse response;
  for (const auto type :
       {Type::CREATE_DELETE_VOLUME, Type::PUBLISH_UNPUBLISH_VOLUME, Type::LIST_VOLUMES, Type::GET_CAPACITY,
        Type::PUBLISH_READONLY, Type::EXPAND_VOLUME, Type::LIST_VOLUMES_PUBLISHED_NODES, Type::GET_VOLUME,
        Type::SINGLE_NODE_MULTI_WRITER, Type::MODIFY_VOLUME, Type::VOLUME_CONDITION, Type::CLONE_VOLUME}) {
    if (type == Type::EXPAND_VOLUME && !offers_.grows) continue;
    if (type == Type::CLONE_VOLUME && !offers_.clones) continue;
    response.add_capabilities()->mutable_rpc()->set_type(type);
  }
  if (!offers_.snapshots) return response;
  for (const auto type : {Type::CREATE_DELETE_SNAPSHOT, Type::LIST_SNAPSHOTS, Type::GET_SNAPSHOT}) {
    response.add_capabilities()->mutable_rpc()->set_type(type);
  }
  return response;
}

absl::StatusOr<csi::v1::ControllerExpandVolumeResponse> ControllerService::Expand(
    const csi::v1::ControllerExpandVolumeRequest& request, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const ControllerExpandSpec spec, ParseControllerExpand(request));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, catalog_.Expand(spec, call, [this](const std::string& id) {
    return uses_.HasStagedDevice(id);
  }));
  csi::v1::ControllerExpandVolumeResponse response;
  response.set_capacity_bytes(static_cast<std::int64_t>(bytes));
  // Also if nothing grew now: an earlier call may have grown the image, and the node may not know it.
  response.set_node_expansion_required(true);
  return response;
}

absl::StatusOr<csi::v1::ControllerGetVolumeResponse> ControllerService::Get(
    const csi::v1::ControllerGetVolumeRequest& request, const Call&) {
  MOORING_ASSIGN_OR_RETURN(const std::string volume_id, Required("volume_id", request.volume_id()));
  MOORING_ASSIGN_OR_RETURN(const VolumeInfo volume, catalog_.Get(volume_id));
  MOORING_ASSIGN_OR_RETURN(const NodeVolumes::Problems problems, uses_.FindProblems({volume_id}));
  csi::v1::ControllerGetVolumeResponse response;
  Pack(volume, *response.mutable_volume());
  SetCondition(volume, problems, *response.mutable_status()->mutable_volume_condition());
  response.mutable_status()->mutable_published_node_ids()->Assign(volume.published_nodes.begin(),
                                                                  volume.published_nodes.end());
  return response;
}

absl::StatusOr<csi::v1::CreateSnapshotResponse> ControllerService::CreateSnapshot(
    const csi::v1::CreateSnapshotRequest& request, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const CreateSnapshotSpec spec, ParseCreateSnapshot(request));
  MOORING_ASSIGN_OR_RETURN(const SnapshotRecord snapshot, snapshots_.Create(spec, call));
  csi::v1::CreateSnapshotResponse response;
  mooring::Pack(snapshot, *response.mutable_snapshot());
  return response;
}

absl::StatusOr<csi::v1::DeleteSnapshotResponse> ControllerService::DeleteSnapshot(
    const csi::v1::DeleteSnapshotRequest& request, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const std::string snapshot_id, Required("snapshot_id", request.snapshot_id()));
  MOORING_RETURN_IF_ERROR(snapshots_.Delete(snapshot_id, call));
  return csi::v1::DeleteSnapshotResponse();
}

absl::StatusOr<csi::v1::ListSnapshotsResponse> ControllerService::ListSnapshots(
    const csi::v1::ListSnapshotsRequest& request, const Call&) {
  MOORING_ASSIGN_OR_RETURN(const ListSnapshotsSpec spec, ParseListSnapshots(request));
  MOORING_ASSIGN_OR_RETURN(const SnapshotPage page, snapshots_.List(spec));
  csi::v1::ListSnapshotsResponse response;
  for (const SnapshotRecord& snapshot : page.snapshots) {
    mooring::Pack(snapshot, *response.add_entries()->mutable_snapshot());
  }
  if (page.next) response.set_next_token(ListToken(kListSnapshots, *page.next));
  return response;
}

absl::StatusOr<csi::v1::GetSnapshotResponse> ControllerService::GetSnapshot(const csi::v1::GetSnapshotRequest& request,
                                                                            const Call&) {
  MOORING_ASSIGN_OR_RETURN(const std::string snapshot_id, Required("snapshot_id", request.snapshot_id()));
  MOORING_ASSIGN_OR_RETURN(const SnapshotRecord snapshot, snapshots_.Get(snapshot_id));
  csi::v1::GetSnapshotResponse response;
  mooring::Pack(snapshot, *response.mutable_snapshot());
  return response;
}

absl::StatusOr<csi::v1::ControllerModifyVolumeResponse> ControllerService::Modify(
    const csi::v1::ControllerModifyVolumeRequest& request, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const ModifySpec spec, ParseModify(request));
  const auto tune = [this](const NodeVolume& volume) { return uses_.Tune(volume); };
  MOORING_RETURN_IF_ERROR(catalog_.Modify(spec, tune, call));
  return csi::v1::ControllerModifyVolumeResponse();
}

void ControllerService::Pack(const VolumeInfo& info, csi::v1::Volume& volume) const {
  volume.set_volume_id(info.id);
  volume.set_capacity_bytes(static_cast<std::int64_t>(info.bytes));
  (*volume.mutable_volume_context())[std::string(kFsTypeKey)] = info.fs_type;
  if (info.propagation) (*volume.mutable_volume_context())[std::string(kPropagationKey)] = ToString(*info.propagation);
  if (IsSnapshotId(info.source)) {
    volume.mutable_content_source()->mutable_snapshot()->set_snapshot_id(info.source);
  } else if (!info.source.empty()) {
    volume.mutable_content_source()->mutable_volume()->set_volume_id(info.source);
  }
  if (info.pool != kDefaultPool) (*volume.mutable_volume_context())[std::string(kPoolKey)] = info.pool;
  if (!TagOfId(info.id).empty()) return;  // reachable from everywhere
  auto& segments = *volume.add_accessible_topology()->mutable_segments();
  for (const auto& [key, value] : catalog_.topology()) segments[key] = value;
}

}  // namespace mooring
