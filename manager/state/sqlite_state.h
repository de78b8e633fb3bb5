// State in an SQLite file of this host. One process at a time has it open (a lock on the file beside it); many threads.
//
// The write-ahead log is what makes commits durable, and what gives them their order: it is one file that only grows,
// and of which a power cut leaves a beginning. So a commit is one fdatasync of it (synchronous=FULL), which makes what
// was committed before durable, too; one that may be lost is none (NORMAL). But for one commit in some hundreds, whose
// turn it is to move the log into the file: that is synced whatever the commit asks for, or a power cut would damage
// it.
#ifndef MOORING_MANAGER_STATE_SQLITE_STATE_H_
#define MOORING_MANAGER_STATE_SQLITE_STATE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/state/state.h"

namespace mooring::manager {

// Whether a new state may be begun, asked where the file is missing or empty.
using MayBegin = std::function<absl::Status()>;

// FAILED_PRECONDITION: another manager has it open, or a newer program wrote it. INTERNAL: damaged, and what to do.
// Otherwise the error of `may_begin`. Revisions of a process before are not watched: OUT_OF_RANGE.
absl::StatusOr<std::unique_ptr<State>> OpenSqliteState(const std::string& path, const MayBegin& may_begin = {});

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_STATE_SQLITE_STATE_H_
