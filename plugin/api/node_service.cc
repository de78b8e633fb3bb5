#include "plugin/api/node_service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/api/node_requests.h"

namespace mooring {
namespace {

using csi::v1::NodeServiceCapability;
using csi::v1::VolumeUsage;

// The id has the form of kubelet's inline volumes, but the request does not mark the volume as ephemeral.
absl::Status WithTheReasonOfKubelet(const absl::Status& status, const PublishSpec& spec) {
  const bool looks_inline = spec.staging_path.empty() && spec.volume_id.starts_with("csi-");
  if (!absl::IsFailedPrecondition(status) || !looks_inline) return status;
  return FailedPrecondition(
      "{}; if it is an inline volume of Kubernetes, set podInfoOnMount in the CSIDriver object: nothing else says so",
      Message(status));
}

void AddUsage(csi::v1::NodeGetVolumeStatsResponse& response, VolumeUsage::Unit unit, const Usage& usage) {
  VolumeUsage* packed = response.add_usage();
  packed->set_unit(unit);
  packed->set_total(static_cast<std::int64_t>(usage.total));
  packed->set_used(static_cast<std::int64_t>(usage.used));
  packed->set_available(static_cast<std::int64_t>(usage.available));
}

}  // namespace

// VOLUME_MOUNT_GROUP is offered only with --volume-mount-group. Kubelet leaves fsGroup to a plugin that offers it, and
// the plugin gives only the root directory to the group. A request with a group is served in both cases, as CSI 1.12
// allows.
absl::StatusOr<csi::v1::NodeGetCapabilitiesResponse> NodeService::Capabilities(
    const csi::v1::NodeGetCapabilitiesRequest&, const Call&) {
  csi::v1::NodeGetCapabilitiesResponse response;
  for (const NodeServiceCapability::RPC::Type type :
       {NodeServiceCapability::RPC::STAGE_UNSTAGE_VOLUME, NodeServiceCapability::RPC::GET_VOLUME_STATS,
        NodeServiceCapability::RPC::EXPAND_VOLUME, NodeServiceCapability::RPC::VOLUME_CONDITION,
        NodeServiceCapability::RPC::SINGLE_NODE_MULTI_WRITER, NodeServiceCapability::RPC::VOLUME_MOUNT_GROUP}) {
    if (type == NodeServiceCapability::RPC::EXPAND_VOLUME && !identity_.grows) continue;
    if (type == NodeServiceCapability::RPC::VOLUME_MOUNT_GROUP && !identity_.mount_group) continue;
    response.add_capabilities()->mutable_rpc()->set_type(type);
  }
  return response;
}

absl::Status NodeService::CheckRoots(const std::string& field, const std::string& path) const {
  const std::vector<std::string>& roots = identity_.mount_roots;
  if (IsBelowAny(path, roots)) return absl::OkStatus();
  return FailedPrecondition(
      "{} {} lies below none of the directories that the plugin was started for: {}; start it with a --mount-root that "
      "it lies below",
      field, Quote(path), fmt::join(roots, ", "));
}

absl::StatusOr<csi::v1::NodeStageVolumeResponse> NodeService::Stage(const csi::v1::NodeStageVolumeRequest& request,
                                                                    const Call& call) {
  MOORING_ASSIGN_OR_RETURN(StageSpec spec, ParseStage(request));
  Resolve(spec.staging_path);
  MOORING_RETURN_IF_ERROR(CheckRoots("staging_target_path", spec.staging_path));
  MOORING_RETURN_IF_ERROR(volumes_.Stage(spec, call));
  return csi::v1::NodeStageVolumeResponse();
}

absl::StatusOr<csi::v1::NodeUnstageVolumeResponse> NodeService::Unstage(
    const csi::v1::NodeUnstageVolumeRequest& request, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(VolumePath at, ParseUnstage(request));
  Resolve(at.path);
  MOORING_RETURN_IF_ERROR(ephemeral_.Unstage(at.volume_id, at.path, call));
  return csi::v1::NodeUnstageVolumeResponse();
}

absl::StatusOr<csi::v1::NodePublishVolumeResponse> NodeService::Publish(
    const csi::v1::NodePublishVolumeRequest& request, const Call& call) {
  if (AsksForEphemeral(request)) {
    MOORING_RETURN_IF_ERROR(PublishEphemeral(request, call));
    return csi::v1::NodePublishVolumeResponse();
  }
  MOORING_ASSIGN_OR_RETURN(PublishSpec spec, ParsePublish(request));
  Resolve(spec.staging_path);
  Resolve(spec.target_path);
  MOORING_RETURN_IF_ERROR(CheckRoots("target_path", spec.target_path));
  MOORING_RETURN_IF_ERROR(WithTheReasonOfKubelet(volumes_.Publish(spec, call), spec));
  return csi::v1::NodePublishVolumeResponse();
}

absl::Status NodeService::PublishEphemeral(const csi::v1::NodePublishVolumeRequest& request, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(EphemeralSpec spec, ParseEphemeral(request, ephemeral_.pools()));
  Resolve(spec.publish.target_path);
  MOORING_RETURN_IF_ERROR(CheckRoots("target_path", spec.publish.target_path));
  return ephemeral_.Publish(spec, call);
}

absl::StatusOr<csi::v1::NodeUnpublishVolumeResponse> NodeService::Unpublish(
    const csi::v1::NodeUnpublishVolumeRequest& request, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(VolumePath at, ParseUnpublish(request));
  Resolve(at.path);
  MOORING_RETURN_IF_ERROR(ephemeral_.Unpublish(at.volume_id, at.path, call));
  return csi::v1::NodeUnpublishVolumeResponse();
}

absl::StatusOr<csi::v1::NodeGetVolumeStatsResponse> NodeService::Stats(
    const csi::v1::NodeGetVolumeStatsRequest& request, const Call&) {
  MOORING_ASSIGN_OR_RETURN(VolumePath at, ParseStats(request));
  Resolve(at.path);
  MOORING_ASSIGN_OR_RETURN(const std::string volume_id, ephemeral_.OwnIdOf(at.volume_id));
  MOORING_ASSIGN_OR_RETURN(const VolumeStats stats, volumes_.Stats(volume_id, at.path));
  csi::v1::NodeGetVolumeStatsResponse response;
  if (stats.is_block) {
    // The plugin does not know how much of a raw device is used. Only the size is known.
    VolumeUsage* usage = response.add_usage();
    usage->set_unit(VolumeUsage::BYTES);
    usage->set_total(static_cast<std::int64_t>(stats.usage.bytes.total));
  } else {
    AddUsage(response, VolumeUsage::BYTES, stats.usage.bytes);
    // A btrfs makes inodes as needed and reports 0. Passed on, that would mean that no inode is free.
    if (stats.usage.inodes.total != 0) AddUsage(response, VolumeUsage::INODES, stats.usage.inodes);
  }
  csi::v1::VolumeCondition* condition = response.mutable_volume_condition();
  condition->set_abnormal(!stats.problem.empty());
  condition->set_message(stats.problem.empty() ? "healthy" : stats.problem);
  return response;
}

absl::StatusOr<csi::v1::NodeExpandVolumeResponse> NodeService::Expand(const csi::v1::NodeExpandVolumeRequest& request,
                                                                      const Call& call) {
  MOORING_ASSIGN_OR_RETURN(ExpandSpec spec, ParseNodeExpand(request));
  Resolve(spec.volume_path);
  if (identity_.grow != nullptr && spec.range.required != 0) {
    MOORING_RETURN_IF_ERROR(
        volumes_.CheckIsAt(spec.volume_id, spec.volume_path));  // before it grows, because it cannot shrink
    MOORING_RETURN_IF_ERROR(identity_.grow({spec.volume_id, spec.range}, call));
  }
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, volumes_.Expand(spec, call));
  csi::v1::NodeExpandVolumeResponse response;
  response.set_capacity_bytes(static_cast<std::int64_t>(bytes));
  return response;
}

absl::StatusOr<csi::v1::NodeGetInfoResponse> NodeService::Info(const csi::v1::NodeGetInfoRequest&, const Call&) {
  csi::v1::NodeGetInfoResponse response;
  response.set_node_id(identity_.node_id);
  response.set_max_volumes_per_node(identity_.max_volumes);
  for (const auto& [key, value] : identity_.topology) {
    (*response.mutable_accessible_topology()->mutable_segments())[key] = value;
  }
  return response;
}

}  // namespace mooring
