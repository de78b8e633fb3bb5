// Checks how a plugin is to be run, before the declaration is stored.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "manager/records/records.h"

namespace mooring::manager {

// Paths that the manager itself binds into every container, each at its own path.
struct ManagerPaths {
  std::string root;         // staging and target paths lie below it; bound with rshared
  std::string socket_root;  // each instance has a directory of its own below it
};

// Gives `run` with its paths normalised. INVALID_ARGUMENT: the plugin cannot be run like this.
absl::StatusOr<PluginRecord::Run> CheckRun(PluginRecord::Run run, const ManagerPaths& paths);

}  // namespace mooring::manager
