#include "manager/supervisor/handshake.h"

#include <algorithm>

#include "base/status.h"

namespace mooring::manager {
namespace {

bool HasControllerService(const csi::v1::GetPluginCapabilitiesResponse& response) {
  return std::any_of(response.capabilities().begin(), response.capabilities().end(), [](const auto& capability) {
    return capability.service().type() == csi::v1::PluginCapability::Service::CONTROLLER_SERVICE;
  });
}

// Whether this socket serves the service. The plugin's capabilities do not say: each of a driver's processes may report
// a controller that only one of them serves.
template <typename Request>
absl::StatusOr<bool> Serves(CsiChannel& channel, const char* name, Clock::time_point until) {
  const absl::Status status = Call(channel, Request(), until).status();
  if (absl::IsUnimplemented(status)) return false;
  if (!status.ok()) return Annotate(status, name);
  return true;
}

}  // namespace

absl::StatusOr<Handshake> DoHandshake(CsiChannel& channel, Clock::time_point until) {
  Handshake handshake;
  const auto info = Call(channel, csi::v1::GetPluginInfoRequest(), until);
  if (!info.ok()) return Annotate(info.status(), "GetPluginInfo");
  handshake.name = info->name();
  handshake.version = info->vendor_version();

  const auto capabilities = Call(channel, csi::v1::GetPluginCapabilitiesRequest(), until);
  if (!capabilities.ok()) return Annotate(capabilities.status(), "GetPluginCapabilities");
  MOORING_ASSIGN_OR_RETURN(const bool node,
                           Serves<csi::v1::NodeGetCapabilitiesRequest>(channel, "NodeGetCapabilities", until));
  if (node) handshake.types.push_back(PluginType::kNode);
  if (HasControllerService(*capabilities)) {
    MOORING_ASSIGN_OR_RETURN(const bool controller, Serves<csi::v1::ControllerGetCapabilitiesRequest>(
                                                        channel, "ControllerGetCapabilities", until));
    if (controller) handshake.types.push_back(PluginType::kController);
  }
  if (handshake.types.empty()) {
    return FailedPrecondition("the plugin serves neither the Node nor the Controller service of CSI");
  }
  return handshake;
}

}  // namespace mooring::manager
