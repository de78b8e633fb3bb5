// Volumes: the calls of the controller.
#include <fmt/format.h>

#include "base/text/size.h"
#include "base/text/terminal_text.h"
#include "cli/csi/command.h"
#include "cli/csi/messages.h"
#include "cli/output/report.h"
#include "cli/output/table.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::Controller;

void SetSource(const Arguments& arguments, csi::v1::CreateVolumeRequest& request) {
  csi::v1::VolumeContentSource& source = *request.mutable_volume_content_source();
  if (!arguments.from_snapshot.empty()) {
    source.mutable_snapshot()->set_snapshot_id(arguments.from_snapshot);
  } else {
    source.mutable_volume()->set_volume_id(arguments.from_volume);
  }
}

void SetTopology(const Arguments& arguments, csi::v1::TopologyRequirement& requirement) {
  AddSegments(arguments.topologies, *requirement.mutable_requisite());
  AddSegments(arguments.preferred_topologies, *requirement.mutable_preferred());
}

absl::Status CreateVolume(Session& session) {
  const Arguments& arguments = session.arguments;
  if (!arguments.from_snapshot.empty() && !arguments.from_volume.empty()) {
    return InvalidArgument("--from-snapshot and --from-volume exclude each other: give one source");
  }
  csi::v1::CreateVolumeRequest request;
  if (!arguments.from_snapshot.empty() || !arguments.from_volume.empty()) SetSource(arguments, request);
  if (!arguments.topologies.empty() || !arguments.preferred_topologies.empty()) {
    SetTopology(arguments, *request.mutable_accessibility_requirements());
  }
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::CreateVolume, request));
  Details details;
  AddVolume(response.volume(), details);
  return session.output.Show(response, details.ToString());
}

absl::Status DeleteVolume(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::DeleteVolume));
  return session.output.Show(response, fmt::format("deleted {}\n", Visible(session.arguments.id)));
}

std::string ConditionOf(const csi::v1::ListVolumesResponse::VolumeStatus& status) {
  return status.has_volume_condition() ? ToString(status.volume_condition()) : "";
}

std::string VolumeTable(const csi::v1::ListVolumesResponse& response) {
  Table table({"ID", "CAPACITY", "PUBLISHED ON", "CONDITION"});
  for (const csi::v1::ListVolumesResponse::Entry& entry : response.entries()) {
    table.Add({entry.volume().volume_id(), FormatSize(entry.volume().capacity_bytes()),
               JoinStrings(entry.status().published_node_ids()), ConditionOf(entry.status())});
  }
  return table.ToString() + NextPageHint(response.next_token());
}

absl::Status ListVolumes(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, FetchPages(session, &Controller::Stub::ListVolumes));
  return session.output.Show(response, VolumeTable(response));
}

absl::Status GetVolume(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::ControllerGetVolume));
  Details details;
  AddVolume(response.volume(), details);
  details.Add("published on", JoinStrings(response.status().published_node_ids()));
  if (response.status().has_volume_condition()) {
    details.Add("condition", ToString(response.status().volume_condition()));
  }
  return session.output.Show(response, details.ToString());
}

absl::Status Capacity(Session& session) {
  csi::v1::GetCapacityRequest request;
  const std::vector<KeyValues>& topologies = session.arguments.topologies;
  if (topologies.size() > 1) return InvalidArgument("--topology is given more than once: give one");
  if (!topologies.empty()) Fill(topologies.front(), *request.mutable_accessible_topology()->mutable_segments());
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::GetCapacity, request));
  Details details;
  details.Add("available", FormatSize(response.available_capacity()));
  if (response.has_maximum_volume_size()) {
    details.Add("largest volume", FormatSize(response.maximum_volume_size().value()));
  }
  if (response.has_minimum_volume_size()) {
    details.Add("smallest volume", FormatSize(response.minimum_volume_size().value()));
  }
  return session.output.Show(response, details.ToString());
}

absl::Status ExpandVolume(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::ControllerExpandVolume));
  Details details;
  details.Add("capacity", FormatSize(response.capacity_bytes()));
  details.Add("node expansion", response.node_expansion_required() ? "required: run node-expand" : "not required");
  return session.output.Show(response, details.ToString());
}

absl::Status Modify(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::ControllerModifyVolume));
  return session.output.Show(response, fmt::format("modified {}\n", Visible(session.arguments.id)));
}

absl::Status ControllerPublish(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::ControllerPublishVolume));
  Details details;
  details.Add("published", session.arguments.id);
  details.Add("node", session.arguments.node);
  details.AddIf("context", ToString(response.publish_context()));
  return session.output.Show(response, details.ToString());
}

absl::Status ControllerUnpublish(Session& session) {
  const Arguments& arguments = session.arguments;
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::ControllerUnpublishVolume));
  const std::string from = arguments.node.empty() ? "every node" : Visible(arguments.node);
  return session.output.Show(response, fmt::format("unpublished {} from {}\n", Visible(arguments.id), from));
}

// "No" is an OK answer without `confirmed`: CSI 1.12, ValidateVolumeCapabilities.
std::string Verdict(const csi::v1::ValidateVolumeCapabilitiesResponse& response) {
  Details details;
  details.Add("confirmed", response.has_confirmed() ? "yes" : "no");
  for (const csi::v1::VolumeCapability& capability : response.confirmed().volume_capabilities()) {
    details.Add("capability", ToString(capability));
  }
  details.AddIf("message", response.message());
  return details.ToString();
}

absl::Status Validate(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::ValidateVolumeCapabilities));
  if (!response.has_confirmed()) session.exit_status = kExitFailed;
  return session.output.Show(response, Verdict(response));
}

}  // namespace

Commands ControllerCommands() {
  const Flags created{&Shared::kSize,         &Shared::kLimit,     &Shared::kParam,
                      &kMutableParam,         &Shared::kTopology,  &Shared::kPreferredTopology,
                      &Shared::kFromSnapshot, &Shared::kFromVolume};
  return {
      {"create", "Create a volume", {&kName}, AllOf({created, kCapabilityFlags, Shared::kSecretFlags}), CreateVolume},
      {"delete", "Delete a volume and its data", {&Shared::kVolumeId}, Shared::kSecretFlags, DeleteVolume},
      {"list", "List the volumes", {}, {&kMaxEntries, &kToken}, ListVolumes},
      {"get", "Show a volume", {&Shared::kVolumeId}, {}, GetVolume},
      {"capacity",
       "Show the available capacity",
       {},
       AllOf({{&Shared::kParam, &Shared::kTopology}, kCapabilityFlags}),
       Capacity},
      {"expand",
       "Expand a volume",
       {&Shared::kVolumeId, &Shared::kSize},
       AllOf({{&Shared::kLimit}, kCapabilityFlags, Shared::kSecretFlags}),
       ExpandVolume},
      {"modify",
       "Change the mutable parameters of a volume",
       {&Shared::kVolumeId, &kMutableParam},
       Shared::kSecretFlags,
       Modify},
      {"validate",
       "Check whether a volume supports a capability; exit status 0 or 1",
       {&Shared::kVolumeId},
       AllOf({kCapabilityFlags, {&Shared::kParam, &kMutableParam, &kVolumeContext}, Shared::kSecretFlags}),
       Validate},
      {"controller-publish",
       "Make a volume available on a node",
       {&Shared::kVolumeId, &kNode},
       AllOf({{&kReadOnly}, kCapabilityFlags, {&kVolumeContext}, Shared::kSecretFlags}),
       ControllerPublish},
      {"controller-unpublish",
       "Undo controller-publish; without --node, on every node",
       {&Shared::kVolumeId},
       AllOf({{&kNode}, Shared::kSecretFlags}),
       ControllerUnpublish},
  };
}

}  // namespace mooring::cli::csi_area
