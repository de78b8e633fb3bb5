// The instances of plugins in the state, for the next manager.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/records/records.h"
#include "manager/state/state.h"

namespace mooring::manager {

// Gives the instances in the order in which they were stored. Damaged ones are left out, with a warning in the log.
absl::StatusOr<std::vector<InstanceInfo>> LoadInstances(State& state, const std::string& host);

absl::Status StoreInstances(State& state, const std::string& host, const std::vector<InstanceInfo>& instances);

}  // namespace mooring::manager
