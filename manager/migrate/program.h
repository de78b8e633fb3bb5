// mooring-manager migrate: moves volumes and claims to a shared state, or back, while the manager of this host is
// stopped.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "manager/config.h"

namespace mooring::manager {

// Gives the line to print. FAILED_PRECONDITION: the manager runs, or a condition of migration.h.
absl::StatusOr<std::string> Migrate(const MigrateConfig& config);

// main() of the command: argv[0] is "migrate". Gives the exit status.
int RunMigrate(int argc, const char* const* argv);

}  // namespace mooring::manager
