// The names of the driver, the node and its topology, by the rules of CSI 1.12 (GetPluginInfo, NodeGetInfo).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring {

absl::StatusOr<std::string> CheckDriverName(const std::string& name);

// Empty: the name of the host.
absl::StatusOr<std::string> CheckNodeId(std::string id);

// "topology.mooring.csi/NAME". Keys are case-insensitive (CSI 1.12, TopologyRequirement), so the prefix is in lower
// case.
std::string TopologyKey(const std::string& driver_name, const std::string& name);

// The key of the segment with the node's id.
std::string NodeTopologyKey(const std::string& driver_name);

// The value of that segment, at most 63 bytes: the id, or the beginning of a longer one and its hash.
std::string NodeTopologyValue(const std::string& node_id);

// Parses segments like "zone=z1" or "topology.mooring.csi/zone=z1".
absl::StatusOr<std::map<std::string, std::string>> ParseTopology(const std::vector<std::string>& segments,
                                                                 const std::string& driver_name);

}  // namespace mooring
