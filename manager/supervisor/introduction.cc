#include "manager/supervisor/introduction.h"

#include <algorithm>

#include "base/status.h"

namespace mooring::manager {
namespace {

bool HasControllerService(const csi::v1::GetPluginCapabilitiesResponse& response) {
  return std::any_of(response.capabilities().begin(), response.capabilities().end(), [](const auto& capability) {
    return capability.service().type() == csi::v1::PluginCapability::Service::CONTROLLER_SERVICE;
  });
}

// Whether a service is there at this socket: a driver tells of a controller even where this process is not it.
template <typename Request>
absl::StatusOr<bool> Serves(CsiChannel& channel, const char* name, Clock::time_point until) {
  const absl::Status status = Call(channel, Request(), until).status();
  if (absl::IsUnimplemented(status)) return false;
  if (!status.ok()) return Annotate(status, name);
  return true;
}

}  // namespace

absl::StatusOr<Introduction> Introduce(CsiChannel& channel, Clock::time_point until) {
  Introduction introduction;
  const auto info = Call(channel, csi::v1::GetPluginInfoRequest(), until);
  if (!info.ok()) return Annotate(info.status(), "GetPluginInfo");
  introduction.name = info->name();
  introduction.version = info->vendor_version();

  const auto capabilities = Call(channel, csi::v1::GetPluginCapabilitiesRequest(), until);
  if (!capabilities.ok()) return Annotate(capabilities.status(), "GetPluginCapabilities");
  MOORING_ASSIGN_OR_RETURN(const bool node,
                           Serves<csi::v1::NodeGetCapabilitiesRequest>(channel, "NodeGetCapabilities", until));
  if (node) introduction.types.push_back(PluginType::kNode);
  if (HasControllerService(*capabilities)) {
    MOORING_ASSIGN_OR_RETURN(const bool controller, Serves<csi::v1::ControllerGetCapabilitiesRequest>(
                                                        channel, "ControllerGetCapabilities", until));
    if (controller) introduction.types.push_back(PluginType::kController);
  }
  if (introduction.types.empty()) {
    return FailedPrecondition("it serves neither the Node nor the Controller service of CSI");
  }
  return introduction;
}

absl::Status ProbeOnce(CsiChannel& channel, Clock::time_point until) {
  const auto answer = Call(channel, csi::v1::ProbeRequest(), until);
  if (!answer.ok()) return Annotate(answer.status(), "Probe");
  if (answer->has_ready() && !answer->ready().value()) return Unavailable("Probe: it is not ready yet");
  return absl::OkStatus();
}

}  // namespace mooring::manager
