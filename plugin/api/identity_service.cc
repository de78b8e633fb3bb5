#include "plugin/api/identity_service.h"

#include "base/status.h"
#include "base/version.h"

namespace mooring {

absl::StatusOr<csi::v1::GetPluginInfoResponse> IdentityService::Info(const csi::v1::GetPluginInfoRequest&,
                                                                     const Call&) {
  csi::v1::GetPluginInfoResponse response;
  response.set_name(settings_.driver_name);
  response.set_vendor_version(Version());
  (*response.mutable_manifest())["commit"] = Commit();
  return response;
}

absl::StatusOr<csi::v1::GetPluginCapabilitiesResponse> IdentityService::Capabilities(
    const csi::v1::GetPluginCapabilitiesRequest&, const Call&) {
  using Offer = csi::v1::PluginCapability::Service;
  using Expansion = csi::v1::PluginCapability::VolumeExpansion;
  csi::v1::GetPluginCapabilitiesResponse response;
  if (settings_.serves_controller) {
    response.add_capabilities()->mutable_service()->set_type(Offer::CONTROLLER_SERVICE);
  }
  if (settings_.serves_controller && settings_.has_snapshots) {
    response.add_capabilities()->mutable_service()->set_type(Offer::GROUP_CONTROLLER_SERVICE);
  }
  if (settings_.serves_controller && settings_.has_snapshot_blocks) {
    response.add_capabilities()->mutable_service()->set_type(Offer::SNAPSHOT_METADATA_SERVICE);
  }
  response.add_capabilities()->mutable_service()->set_type(Offer::VOLUME_ACCESSIBILITY_CONSTRAINTS);
  if (settings_.grows) response.add_capabilities()->mutable_volume_expansion()->set_type(Expansion::ONLINE);
  return response;
}

// A start under way is no error: orchestrators would kill a plugin that takes long to reconcile.
absl::StatusOr<csi::v1::ProbeResponse> IdentityService::Ready(const csi::v1::ProbeRequest&, const Call&) {
  const absl::Status now = readiness_.Now();
  if (!now.ok() && !absl::IsUnavailable(now)) return WithCode(absl::StatusCode::kFailedPrecondition, now);
  if (const absl::Status mounter = mounter_health_(); !mounter.ok()) {
    return WithCode(absl::StatusCode::kFailedPrecondition, mounter);
  }
  csi::v1::ProbeResponse response;
  response.mutable_ready()->set_value(now.ok());
  return response;
}

}  // namespace mooring
