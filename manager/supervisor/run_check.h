// What a plugin is to be run as, checked at the edge.
#ifndef MOORING_MANAGER_SUPERVISOR_RUN_CHECK_H_
#define MOORING_MANAGER_SUPERVISOR_RUN_CHECK_H_

#include <string>

#include "absl/status/statusor.h"
#include "manager/records.h"

namespace mooring::manager {

// `run` with its paths normalised. `root`, of staging and target paths, is bound into containers by the manager itself.
// INVALID_ARGUMENT: it cannot be run so.
absl::StatusOr<PluginRecord::Run> CheckRun(PluginRecord::Run run, const std::string& root);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_RUN_CHECK_H_
