// The outcome of one inspection of a plugin: its health, its capabilities, and the id it gives to this host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "csi.pb.h"
#include "manager/records/records.h"

namespace mooring::manager {

// The capabilities of CSI that the manager uses.
struct PluginTraits {
  bool controller_service = false, group_controller_service = false, topology = false;  // GetPluginCapabilities
  bool expands_online = false, expands_offline = false;
  bool stages = false, node_expands = false, node_stats = false, node_condition = false;  // NodeGetCapabilities
  bool node_single_writer = false;                                                        // SINGLE_NODE_MULTI_WRITER
  bool creates = false, publishes = false, publishes_read_only = false, lists = false;    // ControllerGetCapabilities
  bool snapshots = false, lists_snapshots = false, clones = false, controller_expands = false;
  bool controller_single_writer = false;

  bool operator==(const PluginTraits&) const = default;
};

// As CSI names them; for people.
std::vector<std::string> CapabilityNames(const PluginTraits& traits);

struct Fingerprint {
  bool healthy = false;
  std::string problem;  // why it is unhealthy: the call and its error; "" while it is healthy
  PluginTraits traits;  // as of the last success
  std::string driver_name, vendor_version;
  std::string node_id;  // the plugin's id for this host; only of node instances
  StringMap topology;
  std::int64_t max_volumes = 0;  // 0: no limit
  bool complete = false;         // one inspection has succeeded, so traits and node id are known
  Time at = {};

  bool SameHealth(const Fingerprint& other) const { return healthy == other.healthy && problem == other.problem; }
  bool SameDescription(const Fingerprint& other) const {
    return traits == other.traits && driver_name == other.driver_name && vendor_version == other.vendor_version &&
           node_id == other.node_id && topology == other.topology && max_volumes == other.max_volumes;
  }
};

class CsiChannel;

// Calls Probe once. UNAVAILABLE: the plugin says that it is not ready. An absent `ready` means ready (CSI 1.12, Probe).
absl::Status ProbePlugin(CsiChannel& channel, std::chrono::steady_clock::time_point until);

// Asks a plugin for the capabilities of a role, and returns by `until`. `known` is the previous fingerprint. While it
// is healthy, name, plugin capabilities and node info are copied from it. An unhealthy plugin may be another process by
// now, and is asked again. A failure gives AfterFailure.
Fingerprint DescribePlugin(CsiChannel& channel, PluginType type, const Fingerprint& known,
                           std::chrono::steady_clock::time_point until);

// `known`, with `healthy` false and the error.
Fingerprint AfterFailure(const Fingerprint& known, const absl::Status& failure);

// ProbePlugin, then DescribePlugin.
Fingerprint InspectPlugin(CsiChannel& channel, PluginType type, const Fingerprint& known,
                          std::chrono::steady_clock::time_point until);

// Inspects an instance that is no longer in use. If it does not answer by `until`, its channel is closed, so that the
// calls that hang end. Otherwise calls under way may finish. The fingerprint is not healthy in either case.
Fingerprint InspectStopped(CsiChannel& channel, PluginType type, const Fingerprint& known,
                           std::chrono::steady_clock::time_point until);

}  // namespace mooring::manager
