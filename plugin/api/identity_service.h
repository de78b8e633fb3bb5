// csi.v1.Identity: name, capabilities and readiness of the plugin. Answers before the plugin is ready, too.
#pragma once

#include <functional>
#include <string>

#include "csi.grpc.pb.h"
#include "plugin/api/readiness.h"
#include "plugin/api/rpc.h"

namespace mooring {

class IdentityService final : public csi::v1::Identity::Service {
 public:
  struct Settings {
    std::string driver_name;
    bool serves_controller = true;
    bool grows = true;                // at least one pool has volumes that grow
    bool has_snapshots = true;        // with a controller, snapshot groups are served, too
    bool has_snapshot_blocks = true;  // and snapshot metadata
  };

  // `readiness`, `mounter_health` and `rpc` outlive the service. Probe returns an error of `mounter_health`.
  IdentityService(Settings settings, const Readiness& readiness, std::function<absl::Status()> mounter_health, Rpc& rpc)
      : settings_(std::move(settings)), readiness_(readiness), mounter_health_(std::move(mounter_health)), rpc_(rpc) {}

 private:
  MOORING_CSI_CALL(GetPluginInfo, Info, kAlways);
  MOORING_CSI_CALL(GetPluginCapabilities, Capabilities, kAlways);
  MOORING_CSI_CALL(Probe, Ready, kAlways);

  const Settings settings_;
  const Readiness& readiness_;
  const std::function<absl::Status()> mounter_health_;
  Rpc& rpc_;
};

}  // namespace mooring
