// ControllerPublishVolume and ControllerUnpublishVolume (CSI 1.12) for claims. A volume has one call at a time.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "manager/claims/claim_broker.h"
#include "manager/csi/csi_channel.h"
#include "manager/plugins/plugin_directory.h"

namespace mooring::manager {

class ControllerPublisher {
 public:
  static constexpr std::chrono::seconds kAttempt{30};  // for one try in the background

  // All outlive it. `locks`: shared with Volumes, whose calls to the controller take them too.
  ControllerPublisher(PluginDirectory& plugins, KeyedLocks& locks, const RetryPolicy& retry)
      : plugins_(plugins), locks_(locks), retry_(retry) {}

  // The lock of the volume, which the caller holds during Publish and Unpublish.
  absl::StatusOr<KeyedLocks::Hold> Lock(const VolumeKey& volume, Clock::time_point until);

  // Returns the publish context.
  absl::StatusOr<StringMap> Publish(const ClaimAnswer& answer, Clock::time_point until);

  // NOT_FOUND: the plugin does not know the volume or the node. UNAVAILABLE: no controller is healthy. `may_call` is
  // asked before each try (RetryPolicy).
  absl::Status Unpublish(const Volume& volume, const Claim& claim, Clock::time_point until,
                         const std::function<absl::Status()>& may_call);

  bool HasController(const std::string& plugin);  // whether a healthy one exists
  bool HasControllerFor(const Volume& volume);    // on a host that can reach the volume
  bool IsGone(const std::string& plugin);         // no host that can be seen has the plugin

 private:
  PluginDirectory& plugins_;
  KeyedLocks& locks_;
  const RetryPolicy retry_;
};

}  // namespace mooring::manager
