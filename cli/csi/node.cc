// Volumes on a node: the calls of the node service.
#include <fmt/format.h>

#include <cmath>

#include "base/text/size.h"
#include "cli/csi/capability.h"
#include "cli/csi/command.h"
#include "cli/csi/messages.h"
#include "cli/output/table.h"
#include "cli/output/text.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::Node;
using csi::v1::VolumeUsage;

absl::Status ShowNodeInfo(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const csi::v1::NodeGetInfoResponse response,
                           session.client.Call<Node>(&Node::Stub::NodeGetInfo, csi::v1::NodeGetInfoRequest()));
  const std::int64_t most = response.max_volumes_per_node();
  Details details;
  details.Add("node", response.node_id());
  details.Add("max volumes", most == 0 ? "no limit" : fmt::format("{}", most));
  details.AddIf("topology", ToString(response.accessible_topology()));
  return session.output.Show(response, details.ToString());
}

absl::StatusOr<csi::v1::NodeStageVolumeRequest> StageRequest(const Arguments& arguments) {
  csi::v1::NodeStageVolumeRequest request;
  request.set_volume_id(arguments.id);
  request.set_staging_target_path(arguments.staging_path);
  MOORING_ASSIGN_OR_RETURN(*request.mutable_volume_capability(), CapabilityOf(arguments));
  Fill(arguments.publish_context, *request.mutable_publish_context());
  Fill(arguments.volume_context, *request.mutable_volume_context());
  arguments.secrets.CopyTo(*request.mutable_secrets());
  return request;
}

absl::Status Stage(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const csi::v1::NodeStageVolumeRequest request, StageRequest(session.arguments));
  MOORING_ASSIGN_OR_RETURN(const csi::v1::NodeStageVolumeResponse response,
                           session.client.Call<Node>(&Node::Stub::NodeStageVolume, request));
  return session.output.Show(
      response, fmt::format("staged {} at {}\n", Visible(request.volume_id()), Visible(request.staging_target_path())));
}

absl::Status Unstage(Session& session) {
  csi::v1::NodeUnstageVolumeRequest request;
  request.set_volume_id(session.arguments.id);
  request.set_staging_target_path(session.arguments.staging_path);
  MOORING_ASSIGN_OR_RETURN(const csi::v1::NodeUnstageVolumeResponse response,
                           session.client.Call<Node>(&Node::Stub::NodeUnstageVolume, request));
  return session.output.Show(response, fmt::format("unstaged {} from {}\n", Visible(request.volume_id()),
                                                   Visible(request.staging_target_path())));
}

absl::StatusOr<csi::v1::NodePublishVolumeRequest> NodePublishRequest(const Arguments& arguments) {
  csi::v1::NodePublishVolumeRequest request;
  request.set_volume_id(arguments.id);
  request.set_target_path(arguments.target_path);
  request.set_staging_target_path(arguments.staging_path);
  MOORING_ASSIGN_OR_RETURN(*request.mutable_volume_capability(), CapabilityOf(arguments));
  request.set_readonly(arguments.read_only);
  Fill(arguments.publish_context, *request.mutable_publish_context());
  Fill(arguments.volume_context, *request.mutable_volume_context());
  arguments.secrets.CopyTo(*request.mutable_secrets());
  return request;
}

absl::Status NodePublish(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const csi::v1::NodePublishVolumeRequest request, NodePublishRequest(session.arguments));
  MOORING_ASSIGN_OR_RETURN(const csi::v1::NodePublishVolumeResponse response,
                           session.client.Call<Node>(&Node::Stub::NodePublishVolume, request));
  return session.output.Show(
      response, fmt::format("published {} at {}{}\n", Visible(request.volume_id()), Visible(request.target_path()),
                            request.readonly() ? ", read-only" : ""));
}

absl::Status NodeUnpublish(Session& session) {
  csi::v1::NodeUnpublishVolumeRequest request;
  request.set_volume_id(session.arguments.id);
  request.set_target_path(session.arguments.target_path);
  MOORING_ASSIGN_OR_RETURN(const csi::v1::NodeUnpublishVolumeResponse response,
                           session.client.Call<Node>(&Node::Stub::NodeUnpublishVolume, request));
  return session.output.Show(
      response, fmt::format("unpublished {} from {}\n", Visible(request.volume_id()), Visible(request.target_path())));
}

std::string UnitName(VolumeUsage::Unit unit) {
  const std::string& name = VolumeUsage::Unit_Name(unit);
  return name.empty() ? fmt::format("{}", static_cast<int>(unit)) : name;
}

// The share of the used space in the used and available space, as df(1) counts. Both together are less than the total
// if the filesystem reserves space.
std::string UsedShare(const VolumeUsage& usage) {
  const double usable = static_cast<double>(usage.used()) + static_cast<double>(usage.available());
  if (usage.used() < 0 || usage.available() < 0 || usable <= 0) return "";
  return fmt::format("{:.0f}%", std::ceil(100 * static_cast<double>(usage.used()) / usable));
}

std::string StatsText(const csi::v1::NodeGetVolumeStatsResponse& response) {
  Table table({"UNIT", "TOTAL", "USED", "AVAILABLE", "USE"});
  for (const VolumeUsage& usage : response.usage()) {
    const auto figure = [&usage](std::int64_t value) {
      return usage.unit() == VolumeUsage::BYTES ? FormatSize(value) : fmt::format("{}", value);
    };
    table.Add({UnitName(usage.unit()), figure(usage.total()), figure(usage.used()), figure(usage.available()),
               UsedShare(usage)});
  }
  Details condition;
  if (response.has_volume_condition()) condition.Add("condition", ToString(response.volume_condition()));
  return table.ToString() + condition.ToString();
}

absl::Status Stats(Session& session) {
  csi::v1::NodeGetVolumeStatsRequest request;
  request.set_volume_id(session.arguments.id);
  request.set_volume_path(session.arguments.volume_path);
  request.set_staging_target_path(session.arguments.staging_path);
  MOORING_ASSIGN_OR_RETURN(const csi::v1::NodeGetVolumeStatsResponse response,
                           session.client.Call<Node>(&Node::Stub::NodeGetVolumeStats, request));
  return session.output.Show(response, StatsText(response));
}

absl::StatusOr<csi::v1::NodeExpandVolumeRequest> NodeExpandRequest(const Arguments& arguments) {
  csi::v1::NodeExpandVolumeRequest request;
  request.set_volume_id(arguments.id);
  request.set_volume_path(arguments.volume_path);
  request.set_staging_target_path(arguments.staging_path);
  if (NamesCapacity(arguments)) *request.mutable_capacity_range() = CapacityOf(arguments);
  if (NamesCapability(arguments)) {
    MOORING_ASSIGN_OR_RETURN(*request.mutable_volume_capability(), CapabilityOf(arguments));
  }
  arguments.secrets.CopyTo(*request.mutable_secrets());
  return request;
}

absl::Status NodeExpand(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const csi::v1::NodeExpandVolumeRequest request, NodeExpandRequest(session.arguments));
  MOORING_ASSIGN_OR_RETURN(const csi::v1::NodeExpandVolumeResponse response,
                           session.client.Call<Node>(&Node::Stub::NodeExpandVolume, request));
  // capacity_bytes is optional in this response: 0 means that the driver does not report it.
  Details details;
  details.Add("expanded", request.volume_id());
  if (response.capacity_bytes() != 0) details.Add("capacity", FormatSize(response.capacity_bytes()));
  return session.output.Show(response, details.ToString());
}

}  // namespace

Commands NodeCommands() {
  const Flags contexts{&kPublishContext, &kVolumeContext};
  return {
      {"node-info", "Show the ID, the volume limit and the topology of the node", {}, {}, ShowNodeInfo},
      {"stage",
       "Stage a volume on the node, once for all its targets",
       {&Shared::kVolumeId, &kStagingPath},
       AllOf({kCapabilityFlags, contexts, kSecretFlags}),
       Stage},
      {"unstage", "Unstage a volume from the node", {&Shared::kVolumeId, &kStagingPath}, {}, Unstage},
      {"publish",
       "Publish a volume at a target path",
       {&Shared::kVolumeId, &kTargetPath},
       AllOf({{&kStagingPath, &kReadOnly}, kCapabilityFlags, contexts, kSecretFlags}),
       NodePublish},
      {"unpublish", "Unpublish a volume from a target path", {&Shared::kVolumeId, &kTargetPath}, {}, NodeUnpublish},
      {"stats",
       "Show the usage and the condition of a volume",
       {&Shared::kVolumeId, &kVolumePath},
       {&kStagingPath},
       Stats},
      {"node-expand",
       "Grow the filesystem of a volume to its new size",
       {&Shared::kVolumeId, &kVolumePath},
       AllOf({{&Shared::kSize, &Shared::kLimit, &kStagingPath}, kCapabilityFlags, kSecretFlags}),
       NodeExpand},
  };
}

}  // namespace mooring::cli::csi_area
