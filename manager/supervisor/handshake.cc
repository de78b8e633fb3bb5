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
absl::StatusOr<bool> Serves(CsiChannel& channel, Clock::time_point until) {
  const absl::Status status = Call(channel, Request(), until).status();
  if (absl::IsUnimplemented(status)) return false;
  MOORING_RETURN_IF_ERROR(status);
  return true;
}

}  // namespace

absl::StatusOr<Handshake> DoHandshake(CsiChannel& channel, Clock::time_point until) {
  Handshake handshake;
  MOORING_ASSIGN_OR_RETURN(const auto info, Call(channel, csi::v1::GetPluginInfoRequest(), until));
  handshake.name = info.name();
  handshake.version = info.vendor_version();

  MOORING_ASSIGN_OR_RETURN(const auto capabilities, Call(channel, csi::v1::GetPluginCapabilitiesRequest(), until));
  MOORING_ASSIGN_OR_RETURN(const bool node, Serves<csi::v1::NodeGetCapabilitiesRequest>(channel, until));
  if (node) handshake.types.push_back(PluginType::kNode);
  if (HasControllerService(capabilities)) {
    MOORING_ASSIGN_OR_RETURN(const bool controller, Serves<csi::v1::ControllerGetCapabilitiesRequest>(channel, until));
    if (controller) handshake.types.push_back(PluginType::kController);
  }
  if (handshake.types.empty()) {
    return FailedPrecondition("the plugin serves neither the Node nor the Controller service of CSI");
  }
  return handshake;
}

}  // namespace mooring::manager
