// State in an SQLite file of this host: WAL, synchronous=FULL. One process at a time has it open (a lock on the file
// beside it); many threads.
#ifndef MOORING_MANAGER_STATE_SQLITE_STATE_H_
#define MOORING_MANAGER_STATE_SQLITE_STATE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "manager/state/state.h"

namespace mooring::manager {

// FAILED_PRECONDITION: another manager has it open, or a newer program wrote it. INTERNAL: damaged, and what to do.
absl::StatusOr<std::unique_ptr<State>> OpenSqliteState(const std::string& path);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_STATE_SQLITE_STATE_H_
