#include "manager/plugins/fingerprint.h"

#include <utility>

#include "manager/csi/csi_channel.h"

namespace mooring::manager {
namespace {

absl::Status AskInfo(CsiChannel& channel, Fingerprint& found, Clock::time_point until) {
  const auto info = Call(channel, csi::v1::GetPluginInfoRequest(), until);
  if (!info.ok()) return Annotate(info.status(), "GetPluginInfo");
  found.driver_name = info->name();
  found.vendor_version = info->vendor_version();
  return absl::OkStatus();
}

void Note(csi::v1::PluginCapability::Service::Type type, PluginTraits& traits) {
  using Service = csi::v1::PluginCapability::Service;
  if (type == Service::CONTROLLER_SERVICE) traits.controller_service = true;
  if (type == Service::GROUP_CONTROLLER_SERVICE) traits.group_controller_service = true;
  if (type == Service::VOLUME_ACCESSIBILITY_CONSTRAINTS) traits.topology = true;
}

void Note(csi::v1::PluginCapability::VolumeExpansion::Type type, PluginTraits& traits) {
  using Expansion = csi::v1::PluginCapability::VolumeExpansion;
  if (type == Expansion::ONLINE) traits.expands_online = true;
  if (type == Expansion::OFFLINE) traits.expands_offline = true;
}

absl::Status AskPluginCapabilities(CsiChannel& channel, Fingerprint& found, Clock::time_point until) {
  const auto answer = Call(channel, csi::v1::GetPluginCapabilitiesRequest(), until);
  if (!answer.ok()) return Annotate(answer.status(), "GetPluginCapabilities");
  for (const csi::v1::PluginCapability& capability : answer->capabilities()) {
    if (capability.has_service()) Note(capability.service().type(), found.traits);
    if (capability.has_volume_expansion()) Note(capability.volume_expansion().type(), found.traits);
  }
  return absl::OkStatus();
}

// A plugin without a controller need not have NodeGetInfo: only ControllerPublishVolume needs the node id.
absl::Status AskNodeInfo(CsiChannel& channel, Fingerprint& found, Clock::time_point until) {
  const auto answer = Call(channel, csi::v1::NodeGetInfoRequest(), until);
  if (absl::IsUnimplemented(answer.status()) && !found.traits.controller_service) return absl::OkStatus();
  if (!answer.ok()) return Annotate(answer.status(), "NodeGetInfo");
  if (answer->node_id().empty()) return Internal("NodeGetInfo: the plugin gave no node id");
  found.node_id = answer->node_id();
  found.max_volumes = answer->max_volumes_per_node();
  const auto& segments = answer->accessible_topology().segments();
  found.topology = StringMap(segments.begin(), segments.end());
  return absl::OkStatus();
}

void Note(csi::v1::NodeServiceCapability::RPC::Type type, PluginTraits& traits) {
  using Rpc = csi::v1::NodeServiceCapability::RPC;
  if (type == Rpc::STAGE_UNSTAGE_VOLUME) traits.stages = true;
  if (type == Rpc::EXPAND_VOLUME) traits.node_expands = true;
  if (type == Rpc::GET_VOLUME_STATS) traits.node_stats = true;
  if (type == Rpc::VOLUME_CONDITION) traits.node_condition = true;
  if (type == Rpc::SINGLE_NODE_MULTI_WRITER) traits.node_single_writer = true;
}

absl::Status AskNodeCapabilities(CsiChannel& channel, PluginTraits& traits, Clock::time_point until) {
  const auto answer = Call(channel, csi::v1::NodeGetCapabilitiesRequest(), until);
  if (!answer.ok()) return Annotate(answer.status(), "NodeGetCapabilities");
  traits.stages = traits.node_expands = traits.node_stats = traits.node_condition = traits.node_single_writer = false;
  for (const csi::v1::NodeServiceCapability& capability : answer->capabilities()) Note(capability.rpc().type(), traits);
  return absl::OkStatus();
}

void Note(csi::v1::ControllerServiceCapability::RPC::Type type, PluginTraits& traits) {
  using Rpc = csi::v1::ControllerServiceCapability::RPC;
  if (type == Rpc::CREATE_DELETE_VOLUME) traits.creates = true;
  if (type == Rpc::PUBLISH_UNPUBLISH_VOLUME) traits.publishes = true;
  if (type == Rpc::PUBLISH_READONLY) traits.publishes_read_only = true;
  if (type == Rpc::LIST_VOLUMES) traits.lists = true;
  if (type == Rpc::CREATE_DELETE_SNAPSHOT) traits.snapshots = true;
  if (type == Rpc::LIST_SNAPSHOTS) traits.lists_snapshots = true;
  if (type == Rpc::CLONE_VOLUME) traits.clones = true;
  if (type == Rpc::EXPAND_VOLUME) traits.controller_expands = true;
  if (type == Rpc::SINGLE_NODE_MULTI_WRITER) traits.controller_single_writer = true;
}

absl::Status AskControllerCapabilities(CsiChannel& channel, PluginTraits& traits, Clock::time_point until) {
  const auto answer = Call(channel, csi::v1::ControllerGetCapabilitiesRequest(), until);
  if (!answer.ok()) return Annotate(answer.status(), "ControllerGetCapabilities");
  traits.creates = traits.publishes = traits.publishes_read_only = traits.lists = false;
  traits.snapshots = traits.lists_snapshots = traits.clones = false;
  traits.controller_expands = traits.controller_single_writer = false;
  for (const csi::v1::ControllerServiceCapability& capability : answer->capabilities()) {
    Note(capability.rpc().type(), traits);
  }
  return absl::OkStatus();
}

// Asks for the facts that do not change while the plugin's process lives.
absl::Status AskOnce(CsiChannel& channel, PluginType type, Fingerprint& found, Clock::time_point until) {
  found.traits = {};
  MOORING_RETURN_IF_ERROR(AskInfo(channel, found, until));
  MOORING_RETURN_IF_ERROR(AskPluginCapabilities(channel, found, until));
  return type == PluginType::kNode ? AskNodeInfo(channel, found, until) : absl::OkStatus();
}

absl::Status AskRpcs(CsiChannel& channel, PluginType type, Fingerprint& found, Clock::time_point until) {
  return type == PluginType::kNode ? AskNodeCapabilities(channel, found.traits, until)
                                   : AskControllerCapabilities(channel, found.traits, until);
}

}  // namespace

absl::Status ProbePlugin(CsiChannel& channel, std::chrono::steady_clock::time_point until) {
  const auto answer = Call(channel, csi::v1::ProbeRequest(), until);
  if (!answer.ok()) return Annotate(answer.status(), "Probe");
  if (answer->has_ready() && !answer->ready().value()) return Unavailable("Probe: not ready yet");
  return absl::OkStatus();
}

Fingerprint DescribePlugin(CsiChannel& channel, PluginType type, const Fingerprint& known, const absl::Status& probed,
                           std::chrono::steady_clock::time_point until) {
  Fingerprint found = known;
  absl::Status status = probed;
  if (status.ok() && !known.healthy) status = AskOnce(channel, type, found, until);
  if (status.ok()) status = AskRpcs(channel, type, found, until);
  if (!status.ok()) {
    found = known;
    found.problem = Message(status);
  } else {
    found.complete = true;
    found.problem.clear();
  }
  found.healthy = status.ok();
  found.at = std::chrono::system_clock::now();
  return found;
}

Fingerprint InspectPlugin(CsiChannel& channel, PluginType type, const Fingerprint& known,
                          std::chrono::steady_clock::time_point until) {
  return DescribePlugin(channel, type, known, ProbePlugin(channel, until), until);
}

}  // namespace mooring::manager
