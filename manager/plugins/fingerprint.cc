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

// A capability of CSI and the trait that it sets.
template <typename Type>
struct TraitRow {
  Type type;
  bool PluginTraits::*trait;
};
using Service = csi::v1::PluginCapability::Service;
using Expansion = csi::v1::PluginCapability::VolumeExpansion;
using NodeRpc = csi::v1::NodeServiceCapability::RPC;
using ControllerRpc = csi::v1::ControllerServiceCapability::RPC;

constexpr TraitRow<Service::Type> kServices[] = {
    {Service::CONTROLLER_SERVICE, &PluginTraits::controller_service},
    {Service::GROUP_CONTROLLER_SERVICE, &PluginTraits::group_controller_service},
    {Service::VOLUME_ACCESSIBILITY_CONSTRAINTS, &PluginTraits::topology},
};
constexpr TraitRow<Expansion::Type> kExpansions[] = {
    {Expansion::ONLINE, &PluginTraits::expands_online},
    {Expansion::OFFLINE, &PluginTraits::expands_offline},
};
constexpr TraitRow<NodeRpc::Type> kNodeRpcs[] = {
    {NodeRpc::STAGE_UNSTAGE_VOLUME, &PluginTraits::stages},
    {NodeRpc::EXPAND_VOLUME, &PluginTraits::node_expands},
    {NodeRpc::GET_VOLUME_STATS, &PluginTraits::node_stats},
    {NodeRpc::VOLUME_CONDITION, &PluginTraits::node_condition},
    {NodeRpc::SINGLE_NODE_MULTI_WRITER, &PluginTraits::node_single_writer},
};
constexpr TraitRow<ControllerRpc::Type> kControllerRpcs[] = {
    {ControllerRpc::CREATE_DELETE_VOLUME, &PluginTraits::creates},
    {ControllerRpc::PUBLISH_UNPUBLISH_VOLUME, &PluginTraits::publishes},
    {ControllerRpc::PUBLISH_READONLY, &PluginTraits::publishes_read_only},
    {ControllerRpc::LIST_VOLUMES, &PluginTraits::lists},
    {ControllerRpc::CREATE_DELETE_SNAPSHOT, &PluginTraits::snapshots},
    {ControllerRpc::LIST_SNAPSHOTS, &PluginTraits::lists_snapshots},
    {ControllerRpc::CLONE_VOLUME, &PluginTraits::clones},
    {ControllerRpc::EXPAND_VOLUME, &PluginTraits::controller_expands},
    {ControllerRpc::SINGLE_NODE_MULTI_WRITER, &PluginTraits::controller_single_writer},
};

template <typename Rows, typename Type>
void Note(const Rows& rows, Type type, PluginTraits& traits) {
  for (const auto& row : rows) {
    if (row.type == type) traits.*row.trait = true;
  }
}

absl::Status AskPluginCapabilities(CsiChannel& channel, Fingerprint& found, Clock::time_point until) {
  const auto answer = Call(channel, csi::v1::GetPluginCapabilitiesRequest(), until);
  if (!answer.ok()) return Annotate(answer.status(), "GetPluginCapabilities");
  for (const csi::v1::PluginCapability& capability : answer->capabilities()) {
    if (capability.has_service()) Note(kServices, capability.service().type(), found.traits);
    if (capability.has_volume_expansion()) Note(kExpansions, capability.volume_expansion().type(), found.traits);
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

// Asks for the facts that do not change while the plugin's process lives.
absl::Status AskOnce(CsiChannel& channel, PluginType type, Fingerprint& found, Clock::time_point until) {
  found.traits = {};
  MOORING_RETURN_IF_ERROR(AskInfo(channel, found, until));
  MOORING_RETURN_IF_ERROR(AskPluginCapabilities(channel, found, until));
  return type == PluginType::kNode ? AskNodeInfo(channel, found, until) : absl::OkStatus();
}

template <typename Request, typename Rows>
absl::Status AskRpcsOf(CsiChannel& channel, const char* name, const Rows& rows, PluginTraits& traits,
                       Clock::time_point until) {
  const auto answer = Call(channel, Request(), until);
  if (!answer.ok()) return Annotate(answer.status(), name);
  for (const auto& row : rows) traits.*row.trait = false;
  for (const auto& capability : answer->capabilities()) Note(rows, capability.rpc().type(), traits);
  return absl::OkStatus();
}

absl::Status AskRpcs(CsiChannel& channel, PluginType type, Fingerprint& found, Clock::time_point until) {
  return type == PluginType::kNode ? AskRpcsOf<csi::v1::NodeGetCapabilitiesRequest>(channel, "NodeGetCapabilities",
                                                                                    kNodeRpcs, found.traits, until)
                                   : AskRpcsOf<csi::v1::ControllerGetCapabilitiesRequest>(
                                         channel, "ControllerGetCapabilities", kControllerRpcs, found.traits, until);
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
