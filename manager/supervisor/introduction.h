// What a plugin says of itself when it is met for the first time.
#ifndef MOORING_MANAGER_SUPERVISOR_INTRODUCTION_H_
#define MOORING_MANAGER_SUPERVISOR_INTRODUCTION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"

namespace mooring::manager {

struct Introduction {
  std::string name, version;
  std::vector<PluginType> types;  // at least one
};

// FAILED_PRECONDITION: it serves neither Node nor Controller. Errors name the call.
absl::StatusOr<Introduction> Introduce(CsiChannel& channel, Clock::time_point until);

// One Probe. UNAVAILABLE: it says that it is not ready; an absent `ready` is ready.
absl::Status ProbeOnce(CsiChannel& channel, Clock::time_point until);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_INTRODUCTION_H_
