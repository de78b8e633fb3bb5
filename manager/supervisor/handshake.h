// The first calls to a plugin: they find out its name, its version and its services.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"

namespace mooring::manager {

struct Handshake {
  std::string name, version;
  std::vector<PluginType> types;  // at least one
};

// FAILED_PRECONDITION: the plugin serves neither Node nor Controller. Errors name the call.
absl::StatusOr<Handshake> DoHandshake(CsiChannel& channel, Clock::time_point until);

}  // namespace mooring::manager
