// Volumes: the calls of the controller.
#include <fmt/format.h>

#include "base/text/size.h"
#include "cli/csi/capability.h"
#include "cli/csi/command.h"
#include "cli/csi/messages.h"
#include "cli/csi/pages.h"
#include "cli/output/table.h"
#include "cli/output/text.h"

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

void SetTopology(const Arguments& arguments, csi::v1::CreateVolumeRequest& request) {
  csi::v1::TopologyRequirement& requirement = *request.mutable_accessibility_requirements();
  for (const KeyValues& segments : arguments.topologies) {
    Fill(segments, *requirement.add_requisite()->mutable_segments());
  }
  for (const KeyValues& segments : arguments.preferred_topologies) {
    Fill(segments, *requirement.add_preferred()->mutable_segments());
  }
}

absl::StatusOr<csi::v1::CreateVolumeRequest> CreateRequest(const Arguments& arguments) {
  if (!arguments.from_snapshot.empty() && !arguments.from_volume.empty()) {
    return InvalidArgument("--from-snapshot and --from-volume exclude each other: give one source");
  }
  csi::v1::CreateVolumeRequest request;
  request.set_name(arguments.name);
  MOORING_ASSIGN_OR_RETURN(*request.mutable_volume_capabilities(), CapabilitiesOf(arguments));
  if (NamesCapacity(arguments)) *request.mutable_capacity_range() = CapacityOf(arguments);
  if (!arguments.from_snapshot.empty() || !arguments.from_volume.empty()) SetSource(arguments, request);
  if (!arguments.topologies.empty() || !arguments.preferred_topologies.empty()) SetTopology(arguments, request);
  Fill(arguments.parameters, *request.mutable_parameters());
  Fill(arguments.mutable_parameters, *request.mutable_mutable_parameters());
  arguments.secrets.CopyTo(*request.mutable_secrets());
  return request;
}

absl::Status CreateVolume(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const csi::v1::CreateVolumeRequest request, CreateRequest(session.arguments));
  MOORING_ASSIGN_OR_RETURN(const csi::v1::CreateVolumeResponse response,
                           session.client.Call<Controller>(&Controller::Stub::CreateVolume, request));
  Details details;
  AddVolume(response.volume(), details);
  return session.output.Show(response, details.ToString());
}

absl::Status DeleteVolume(Session& session) {
  csi::v1::DeleteVolumeRequest request;
  request.set_volume_id(session.arguments.id);
  session.arguments.secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(const csi::v1::DeleteVolumeResponse response,
                           session.client.Call<Controller>(&Controller::Stub::DeleteVolume, request));
  return session.output.Show(response, fmt::format("deleted {}\n", Visible(request.volume_id())));
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
  csi::v1::ListVolumesRequest request;
  request.set_max_entries(session.arguments.max_entries);
  request.set_starting_token(session.arguments.token);
  const auto fetch = [&session](const csi::v1::ListVolumesRequest& page) {
    return session.client.Call<Controller>(&Controller::Stub::ListVolumes, page);
  };
  MOORING_ASSIGN_OR_RETURN(const auto response, FetchPages<csi::v1::ListVolumesResponse>(request, fetch));
  return session.output.Show(response, VolumeTable(response));
}

absl::Status GetVolume(Session& session) {
  csi::v1::ControllerGetVolumeRequest request;
  request.set_volume_id(session.arguments.id);
  MOORING_ASSIGN_OR_RETURN(const csi::v1::ControllerGetVolumeResponse response,
                           session.client.Call<Controller>(&Controller::Stub::ControllerGetVolume, request));
  Details details;
  AddVolume(response.volume(), details);
  details.Add("published on", JoinStrings(response.status().published_node_ids()));
  if (response.status().has_volume_condition()) {
    details.Add("condition", ToString(response.status().volume_condition()));
  }
  return session.output.Show(response, details.ToString());
}

absl::StatusOr<csi::v1::GetCapacityRequest> CapacityRequest(const Arguments& arguments) {
  csi::v1::GetCapacityRequest request;
  if (NamesCapability(arguments)) {
    MOORING_ASSIGN_OR_RETURN(*request.mutable_volume_capabilities(), CapabilitiesOf(arguments));
  }
  Fill(arguments.parameters, *request.mutable_parameters());
  if (arguments.topologies.size() > 1) return InvalidArgument("--topology is given more than once: give one");
  for (const KeyValues& segments : arguments.topologies) {
    Fill(segments, *request.mutable_accessible_topology()->mutable_segments());
  }
  return request;
}

absl::Status Capacity(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const csi::v1::GetCapacityRequest request, CapacityRequest(session.arguments));
  MOORING_ASSIGN_OR_RETURN(const csi::v1::GetCapacityResponse response,
                           session.client.Call<Controller>(&Controller::Stub::GetCapacity, request));
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

absl::StatusOr<csi::v1::ControllerExpandVolumeRequest> ExpandVolumeRequest(const Arguments& arguments) {
  csi::v1::ControllerExpandVolumeRequest request;
  request.set_volume_id(arguments.id);
  *request.mutable_capacity_range() = CapacityOf(arguments);
  if (NamesCapability(arguments)) {
    MOORING_ASSIGN_OR_RETURN(*request.mutable_volume_capability(), CapabilityOf(arguments));
  }
  arguments.secrets.CopyTo(*request.mutable_secrets());
  return request;
}

absl::Status ExpandVolume(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const csi::v1::ControllerExpandVolumeRequest request,
                           ExpandVolumeRequest(session.arguments));
  MOORING_ASSIGN_OR_RETURN(const csi::v1::ControllerExpandVolumeResponse response,
                           session.client.Call<Controller>(&Controller::Stub::ControllerExpandVolume, request));
  Details details;
  details.Add("capacity", FormatSize(response.capacity_bytes()));
  details.Add("node expansion", response.node_expansion_required() ? "required: run node-expand" : "not required");
  return session.output.Show(response, details.ToString());
}

absl::Status Modify(Session& session) {
  csi::v1::ControllerModifyVolumeRequest request;
  request.set_volume_id(session.arguments.id);
  Fill(session.arguments.mutable_parameters, *request.mutable_mutable_parameters());
  session.arguments.secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(const csi::v1::ControllerModifyVolumeResponse response,
                           session.client.Call<Controller>(&Controller::Stub::ControllerModifyVolume, request));
  return session.output.Show(response, fmt::format("modified {}\n", Visible(request.volume_id())));
}

}  // namespace

Commands ControllerCommands() {
  const Flags created{&Shared::kSize,         &Shared::kLimit,     &Shared::kParam,
                      &kMutableParam,         &Shared::kTopology,  &Shared::kPreferredTopology,
                      &Shared::kFromSnapshot, &Shared::kFromVolume};
  return {
      {"create", "Create a volume", {&kName}, AllOf({created, kCapabilityFlags, kSecretFlags}), CreateVolume},
      {"delete", "Delete a volume and its data", {&Shared::kVolumeId}, kSecretFlags, DeleteVolume},
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
       AllOf({{&Shared::kLimit}, kCapabilityFlags, kSecretFlags}),
       ExpandVolume},
      {"modify",
       "Change the mutable parameters of a volume",
       {&Shared::kVolumeId, &kMutableParam},
       kSecretFlags,
       Modify},
  };
}

}  // namespace mooring::cli::csi_area
