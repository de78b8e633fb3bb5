// What one look at a plugin found, (c) 1.
#ifndef MOORING_MANAGER_PLUGINS_FINGERPRINT_H_
#define MOORING_MANAGER_PLUGINS_FINGERPRINT_H_

#include <cstdint>
#include <string>

#include "csi.pb.h"
#include "manager/records/records.h"

namespace mooring::manager {

// CSI's capabilities as plain bools; those we make no use of are left out.
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

struct Fingerprint {
  bool healthy = false;
  std::string words;    // "" while it is healthy; else which call said what
  PluginTraits traits;  // of the last success
  std::string driver_name, vendor_version;
  std::string node_id;  // the plugin's own id of this host; node instances only
  StringMap topology;
  std::int64_t max_volumes = 0;  // 0: no limit
  bool complete = false;         // there was one full success: traits and node id are settled
  Time at = {};

  bool SameHealth(const Fingerprint& other) const { return healthy == other.healthy && words == other.words; }
  bool SameDescription(const Fingerprint& other) const {
    return traits == other.traits && driver_name == other.driver_name && vendor_version == other.vendor_version &&
           node_id == other.node_id && topology == other.topology && max_volumes == other.max_volumes;
  }
};

class CsiChannel;

// Looks once. `known` is the fingerprint before: while it is healthy, name, plugin capabilities and node info are taken
// from it; after it was sick it may be another process, and is asked anew. Never blocks past `until`. An error or
// `ready` false makes it unhealthy, with all else as it was known; an absent `ready` is ready.
Fingerprint TakeFingerprint(CsiChannel& channel, PluginType type, const Fingerprint& known,
                            std::chrono::steady_clock::time_point until);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PLUGINS_FINGERPRINT_H_
