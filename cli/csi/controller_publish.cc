// ControllerPublishVolume, ControllerUnpublishVolume and ValidateVolumeCapabilities.
#include <fmt/format.h>

#include "cli/csi/capability.h"
#include "cli/csi/command.h"
#include "cli/csi/messages.h"
#include "cli/output/exit_status.h"
#include "cli/output/table.h"
#include "cli/output/text.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::Controller;

absl::StatusOr<csi::v1::ControllerPublishVolumeRequest> ControllerPublishRequest(const Arguments& arguments) {
  csi::v1::ControllerPublishVolumeRequest request;
  request.set_volume_id(arguments.id);
  request.set_node_id(arguments.node);
  MOORING_ASSIGN_OR_RETURN(*request.mutable_volume_capability(), CapabilityOf(arguments));
  request.set_readonly(arguments.read_only);
  Fill(arguments.volume_context, *request.mutable_volume_context());
  arguments.secrets.CopyTo(*request.mutable_secrets());
  return request;
}

absl::Status ControllerPublish(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const csi::v1::ControllerPublishVolumeRequest request,
                           ControllerPublishRequest(session.arguments));
  MOORING_ASSIGN_OR_RETURN(const csi::v1::ControllerPublishVolumeResponse response,
                           session.client.Call<Controller>(&Controller::Stub::ControllerPublishVolume, request));
  Details details;
  details.Add("published", request.volume_id());
  details.Add("node", request.node_id());
  details.AddIf("context", ToString(response.publish_context()));
  return session.output.Show(response, details.ToString());
}

absl::Status ControllerUnpublish(Session& session) {
  csi::v1::ControllerUnpublishVolumeRequest request;
  request.set_volume_id(session.arguments.id);
  request.set_node_id(session.arguments.node);
  session.arguments.secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(const csi::v1::ControllerUnpublishVolumeResponse response,
                           session.client.Call<Controller>(&Controller::Stub::ControllerUnpublishVolume, request));
  const std::string from = request.node_id().empty() ? "every node" : Visible(request.node_id());
  return session.output.Show(response, fmt::format("unpublished {} from {}\n", Visible(request.volume_id()), from));
}

absl::StatusOr<csi::v1::ValidateVolumeCapabilitiesRequest> ValidateRequest(const Arguments& arguments) {
  csi::v1::ValidateVolumeCapabilitiesRequest request;
  request.set_volume_id(arguments.id);
  MOORING_ASSIGN_OR_RETURN(*request.mutable_volume_capabilities(), CapabilitiesOf(arguments));
  Fill(arguments.volume_context, *request.mutable_volume_context());
  Fill(arguments.parameters, *request.mutable_parameters());
  Fill(arguments.mutable_parameters, *request.mutable_mutable_parameters());
  arguments.secrets.CopyTo(*request.mutable_secrets());
  return request;
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
  MOORING_ASSIGN_OR_RETURN(const csi::v1::ValidateVolumeCapabilitiesRequest request,
                           ValidateRequest(session.arguments));
  MOORING_ASSIGN_OR_RETURN(const csi::v1::ValidateVolumeCapabilitiesResponse response,
                           session.client.Call<Controller>(&Controller::Stub::ValidateVolumeCapabilities, request));
  if (!response.has_confirmed()) session.exit_status = kExitFailed;
  return session.output.Show(response, Verdict(response));
}

}  // namespace

Commands ControllerPublishCommands() {
  return {
      {"validate",
       "Check whether a volume supports a capability; exit status 0 or 1",
       {&Shared::kVolumeId},
       AllOf({kCapabilityFlags, {&Shared::kParam, &kMutableParam, &kVolumeContext}, kSecretFlags}),
       Validate},
      {"controller-publish",
       "Make a volume available on a node",
       {&Shared::kVolumeId, &kNode},
       AllOf({{&kReadOnly}, kCapabilityFlags, {&kVolumeContext}, kSecretFlags}),
       ControllerPublish},
      {"controller-unpublish",
       "Undo controller-publish; without --node, on every node",
       {&Shared::kVolumeId},
       AllOf({{&kNode}, kSecretFlags}),
       ControllerUnpublish},
  };
}

}  // namespace mooring::cli::csi_area
