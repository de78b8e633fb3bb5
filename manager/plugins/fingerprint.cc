#include "manager/plugins/fingerprint.h"

#include <fmt/format.h>

#include <utility>

#include "manager/csi/csi_channel.h"

namespace mooring::manager {
namespace {

absl::Status AskInfo(CsiChannel& channel, Fingerprint& found, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const auto info, Call(channel, csi::v1::GetPluginInfoRequest(), until));
  found.driver_name = info.name();
  found.vendor_version = info.vendor_version();
  return absl::OkStatus();
}

// The messages that report capabilities.
enum class Source { kService, kExpansion, kNode, kController };

using Service = csi::v1::PluginCapability::Service;
using Expansion = csi::v1::PluginCapability::VolumeExpansion;
using NodeRpc = csi::v1::NodeServiceCapability::RPC;
using ControllerRpc = csi::v1::ControllerServiceCapability::RPC;

struct CapabilityRow {
  Source source;
  int type;
  bool PluginTraits::*trait;
  const char* name;  // as CSI names it; NODE_ or VOLUME_ is added where the name alone is not clear
};
constexpr CapabilityRow kCapabilities[] = {
    {Source::kService, Service::CONTROLLER_SERVICE, &PluginTraits::controller_service, "CONTROLLER_SERVICE"},
    {Source::kService, Service::GROUP_CONTROLLER_SERVICE, &PluginTraits::group_controller_service,
     "GROUP_CONTROLLER_SERVICE"},
    {Source::kService, Service::VOLUME_ACCESSIBILITY_CONSTRAINTS, &PluginTraits::topology,
     "VOLUME_ACCESSIBILITY_CONSTRAINTS"},
    {Source::kExpansion, Expansion::ONLINE, &PluginTraits::expands_online, "VOLUME_EXPANSION_ONLINE"},
    {Source::kExpansion, Expansion::OFFLINE, &PluginTraits::expands_offline, "VOLUME_EXPANSION_OFFLINE"},
    {Source::kNode, NodeRpc::STAGE_UNSTAGE_VOLUME, &PluginTraits::stages, "STAGE_UNSTAGE_VOLUME"},
    {Source::kNode, NodeRpc::EXPAND_VOLUME, &PluginTraits::node_expands, "NODE_EXPAND_VOLUME"},
    {Source::kNode, NodeRpc::GET_VOLUME_STATS, &PluginTraits::node_stats, "GET_VOLUME_STATS"},
    {Source::kNode, NodeRpc::VOLUME_CONDITION, &PluginTraits::node_condition, "VOLUME_CONDITION"},
    {Source::kNode, NodeRpc::SINGLE_NODE_MULTI_WRITER, &PluginTraits::node_single_writer,
     "NODE_SINGLE_NODE_MULTI_WRITER"},
    {Source::kController, ControllerRpc::CREATE_DELETE_VOLUME, &PluginTraits::creates, "CREATE_DELETE_VOLUME"},
    {Source::kController, ControllerRpc::PUBLISH_UNPUBLISH_VOLUME, &PluginTraits::publishes,
     "PUBLISH_UNPUBLISH_VOLUME"},
    {Source::kController, ControllerRpc::PUBLISH_READONLY, &PluginTraits::publishes_read_only, "PUBLISH_READONLY"},
    {Source::kController, ControllerRpc::LIST_VOLUMES, &PluginTraits::lists, "LIST_VOLUMES"},
    {Source::kController, ControllerRpc::CREATE_DELETE_SNAPSHOT, &PluginTraits::snapshots, "CREATE_DELETE_SNAPSHOT"},
    {Source::kController, ControllerRpc::LIST_SNAPSHOTS, &PluginTraits::lists_snapshots, "LIST_SNAPSHOTS"},
    {Source::kController, ControllerRpc::CLONE_VOLUME, &PluginTraits::clones, "CLONE_VOLUME"},
    {Source::kController, ControllerRpc::EXPAND_VOLUME, &PluginTraits::controller_expands, "EXPAND_VOLUME"},
    {Source::kController, ControllerRpc::SINGLE_NODE_MULTI_WRITER, &PluginTraits::controller_single_writer,
     "SINGLE_NODE_MULTI_WRITER"},
};

void Note(Source source, int type, PluginTraits& traits) {
  for (const CapabilityRow& row : kCapabilities) {
    if (row.source == source && row.type == type) traits.*row.trait = true;
  }
}

absl::Status AskPluginCapabilities(CsiChannel& channel, Fingerprint& found, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const auto answer, Call(channel, csi::v1::GetPluginCapabilitiesRequest(), until));
  for (const csi::v1::PluginCapability& capability : answer.capabilities()) {
    if (capability.has_service()) Note(Source::kService, capability.service().type(), found.traits);
    if (capability.has_volume_expansion()) Note(Source::kExpansion, capability.volume_expansion().type(), found.traits);
  }
  return absl::OkStatus();
}

// A plugin without a controller need not have NodeGetInfo: only ControllerPublishVolume needs the node id.
absl::Status AskNodeInfo(CsiChannel& channel, Fingerprint& found, Clock::time_point until) {
  const auto answer = Call(channel, csi::v1::NodeGetInfoRequest(), until);
  if (absl::IsUnimplemented(answer.status()) && !found.traits.controller_service) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(answer.status());
  if (answer->node_id().empty()) return Internal("NodeGetInfo: the plugin gave no node id");
  found.node_id = answer->node_id();
  found.max_volumes = answer->max_volumes_per_node();
  const auto& segments = answer->accessible_topology().segments();
  found.topology = StringMap(segments.begin(), segments.end());
  return absl::OkStatus();
}

// Asks for the facts that do not change while the plugin's process lives.
absl::Status AskOnce(CsiChannel& channel, PluginType type, Fingerprint& found, Clock::time_point until) {
  found.traits = {};
  MOORING_RETURN_IF_ERROR(AskInfo(channel, found, until));
  MOORING_RETURN_IF_ERROR(AskPluginCapabilities(channel, found, until));
  return type == PluginType::kNode ? AskNodeInfo(channel, found, until) : absl::OkStatus();
}

template <typename Request>
absl::Status AskRpcsOf(CsiChannel& channel, Source source, PluginTraits& traits, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const auto answer, Call(channel, Request(), until));
  for (const CapabilityRow& row : kCapabilities) {
    if (row.source == source) traits.*row.trait = false;
  }
  for (const auto& capability : answer.capabilities()) Note(source, capability.rpc().type(), traits);
  return absl::OkStatus();
}

absl::Status AskRpcs(CsiChannel& channel, PluginType type, PluginTraits& traits, Clock::time_point until) {
  return type == PluginType::kNode
             ? AskRpcsOf<csi::v1::NodeGetCapabilitiesRequest>(channel, Source::kNode, traits, until)
             : AskRpcsOf<csi::v1::ControllerGetCapabilitiesRequest>(channel, Source::kController, traits, until);
}

}  // namespace

std::vector<std::string> CapabilityNames(const PluginTraits& traits) {
  std::vector<std::string> names;
  for (const CapabilityRow& row : kCapabilities) {
    if (traits.*row.trait) names.push_back(row.name);
  }
  return names;
}

absl::Status ProbePlugin(CsiChannel& channel, std::chrono::steady_clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const auto answer, Call(channel, csi::v1::ProbeRequest(), until));
  if (answer.has_ready() && !answer.ready().value()) return Unavailable("Probe: not ready yet");
  return absl::OkStatus();
}

Fingerprint DescribePlugin(CsiChannel& channel, PluginType type, const Fingerprint& known,
                           std::chrono::steady_clock::time_point until) {
  Fingerprint found = known;
  absl::Status status = known.healthy ? absl::OkStatus() : AskOnce(channel, type, found, until);
  if (status.ok()) status = AskRpcs(channel, type, found.traits, until);
  if (!status.ok()) return AfterFailure(known, status);
  found.complete = true;
  found.problem.clear();
  found.healthy = true;
  found.at = std::chrono::system_clock::now();
  return found;
}

Fingerprint AfterFailure(const Fingerprint& known, const absl::Status& failure) {
  Fingerprint found = known;
  found.problem = Message(failure);
  found.healthy = false;
  found.at = std::chrono::system_clock::now();
  return found;
}

Fingerprint InspectPlugin(CsiChannel& channel, PluginType type, const Fingerprint& known,
                          std::chrono::steady_clock::time_point until) {
  const absl::Status probed = ProbePlugin(channel, until);
  return probed.ok() ? DescribePlugin(channel, type, known, until) : AfterFailure(known, probed);
}

Fingerprint InspectStopped(CsiChannel& channel, PluginType type, const Fingerprint& known,
                           std::chrono::steady_clock::time_point until) {
  Fingerprint last = InspectPlugin(channel, type, known, until);
  if (last.healthy) {
    last.problem = "it was stopped";
  } else {
    channel.Close();
    last.problem = fmt::format("it was stopped; before: {}", known.healthy ? last.problem : known.problem);
  }
  last.healthy = false;
  return last;
}

}  // namespace mooring::manager
