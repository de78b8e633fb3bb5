// The first calls to a plugin: they find out its name, its version and its services.
#ifndef MOORING_MANAGER_SUPERVISOR_HANDSHAKE_H_
#define MOORING_MANAGER_SUPERVISOR_HANDSHAKE_H_

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

#endif  // MOORING_MANAGER_SUPERVISOR_HANDSHAKE_H_
