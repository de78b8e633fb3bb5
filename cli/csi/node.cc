// Volumes on a node: the calls of the node service.
#include <fmt/format.h>

#include <cmath>

#include "base/text/size.h"
#include "base/text/terminal_text.h"
#include "cli/csi/command.h"
#include "cli/csi/messages.h"
#include "cli/output/table.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::Node;
using csi::v1::VolumeUsage;

absl::Status ShowNodeInfo(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Node::Stub::NodeGetInfo));
  const std::int64_t most = response.max_volumes_per_node();
  Details details;
  details.Add("node", response.node_id());
  details.Add("max volumes", most == 0 ? "no limit" : fmt::format("{}", most));
  details.AddIf("topology", ToString(response.accessible_topology()));
  return session.output.Show(response, details.ToString());
}

absl::Status Stage(Session& session) {
  const Arguments& arguments = session.arguments;
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Node::Stub::NodeStageVolume));
  return session.output.Show(response,
                             fmt::format("staged {} at {}\n", Visible(arguments.id), Visible(arguments.staging_path)));
}

absl::Status Unstage(Session& session) {
  const Arguments& arguments = session.arguments;
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Node::Stub::NodeUnstageVolume));
  return session.output.Show(
      response, fmt::format("unstaged {} from {}\n", Visible(arguments.id), Visible(arguments.staging_path)));
}

absl::Status NodePublish(Session& session) {
  const Arguments& arguments = session.arguments;
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Node::Stub::NodePublishVolume));
  return session.output.Show(
      response, fmt::format("published {} at {}{}\n", Visible(arguments.id), Visible(arguments.target_path),
                            arguments.read_only ? ", read-only" : ""));
}

absl::Status NodeUnpublish(Session& session) {
  const Arguments& arguments = session.arguments;
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Node::Stub::NodeUnpublishVolume));
  return session.output.Show(
      response, fmt::format("unpublished {} from {}\n", Visible(arguments.id), Visible(arguments.target_path)));
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
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Node::Stub::NodeGetVolumeStats));
  return session.output.Show(response, StatsText(response));
}

absl::Status NodeExpand(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Node::Stub::NodeExpandVolume));
  // capacity_bytes is optional in this response: 0 means that the driver does not report it.
  Details details;
  details.Add("expanded", session.arguments.id);
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
       AllOf({kCapabilityFlags, contexts, Shared::kSecretFlags}),
       Stage},
      {"unstage", "Unstage a volume from the node", {&Shared::kVolumeId, &kStagingPath}, {}, Unstage},
      {"publish",
       "Publish a volume at a target path",
       {&Shared::kVolumeId, &kTargetPath},
       AllOf({{&kStagingPath, &kReadOnly}, kCapabilityFlags, contexts, Shared::kSecretFlags}),
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
       AllOf({{&Shared::kSize, &Shared::kLimit, &kStagingPath}, kCapabilityFlags, Shared::kSecretFlags}),
       NodeExpand},
  };
}

}  // namespace mooring::cli::csi_area
