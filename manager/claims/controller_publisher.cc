#include "manager/claims/controller_publisher.h"

#include <fmt/format.h>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/controller_call.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

// A plugin has to refuse a second publish in another mode on the same node, so every publish uses the mode in use.
csi::v1::ControllerPublishVolumeRequest PublishRequest(const ClaimAnswer& answer, const PluginTraits& traits) {
  const Volume& volume = answer.volume;
  const Claim& claim = answer.claim;
  const Capability capability = volume.in_use.value_or(claim.capability);
  csi::v1::ControllerPublishVolumeRequest request;
  request.set_volume_id(IdForPlugin(volume));
  request.set_node_id(claim.external_node_id);
  *request.mutable_volume_capability() = ToCsi(capability, volume.mount_options, traits.controller_single_writer);
  volume.secrets.CopyTo(*request.mutable_secrets());
  request.mutable_volume_context()->insert(volume.context.begin(), volume.context.end());
  request.set_readonly(IsReader(capability.access) && traits.publishes_read_only);
  return request;
}

}  // namespace

absl::StatusOr<KeyedLocks::Hold> ControllerPublisher::Lock(const VolumeKey& volume, Clock::time_point until) {
  return LockController(locks_, volume, until);
}

absl::StatusOr<StringMap> ControllerPublisher::Publish(const ClaimAnswer& answer, Clock::time_point until) {
  const auto request = [&](const PluginTraits& traits) { return PublishRequest(answer, traits); };
  MOORING_ASSIGN_OR_RETURN(const auto response,
                           CallController(plugins_, ControllerFor(answer.volume), request, retry_, until));
  return StringMap(response.publish_context().begin(), response.publish_context().end());
}

absl::Status ControllerPublisher::Unpublish(const Volume& volume, const Claim& claim, Clock::time_point until,
                                            const std::function<absl::Status()>& may_call) {
  if (!HasController(volume.plugin)) {
    return Unavailable(
        "ControllerUnpublishVolume is owed to plugin {}: it is sent once the plugin has a healthy controller",
        Quote(volume.plugin));
  }
  csi::v1::ControllerUnpublishVolumeRequest request;
  request.set_volume_id(IdForPlugin(volume));
  request.set_node_id(claim.external_node_id);
  volume.secrets.CopyTo(*request.mutable_secrets());
  RetryPolicy retry = retry_;
  retry.may_call = [&] {
    const absl::Status leased = retry_.may_call();
    return leased.ok() ? may_call() : leased;
  };
  const absl::Status status = CallController(plugins_, ControllerFor(volume), request, retry, until).status();
  if (status.ok() || volume.secrets_problem.empty()) return status;
  return absl::Status(status.code(),
                      fmt::format("{}; it was called without secrets: {}", Message(status), volume.secrets_problem));
}

bool ControllerPublisher::HasControllerFor(const Volume& volume) {
  return plugins_.PickController(ControllerFor(volume), Clock::now()).ok();
}

bool ControllerPublisher::IsGone(const std::string& plugin) { return absl::IsNotFound(plugins_.Find(plugin).status()); }

bool ControllerPublisher::HasController(const std::string& plugin) {
  const auto status = plugins_.Find(plugin);
  return status.ok() && status->controllers.healthy > 0;
}

}  // namespace mooring::manager
