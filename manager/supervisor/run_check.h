// What a plugin is to be run as, checked at the edge.
#ifndef MOORING_MANAGER_SUPERVISOR_RUN_CHECK_H_
#define MOORING_MANAGER_SUPERVISOR_RUN_CHECK_H_

#include <string>

#include "absl/status/statusor.h"
#include "manager/records/records.h"

namespace mooring::manager {

// What the manager binds into every container by itself, at their own paths.
struct ManagerPaths {
  std::string root;         // of staging and target paths, with rshared
  std::string socket_root;  // each plugin has its own directory below it
};

// `run` with its paths normalised. INVALID_ARGUMENT: it cannot be run so.
absl::StatusOr<PluginRecord::Run> CheckRun(PluginRecord::Run run, const ManagerPaths& paths);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_RUN_CHECK_H_
