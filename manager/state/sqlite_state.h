// State in an SQLite file of this host. A lock on a file beside it lets one process at a time open it; its threads may
// all use it.
//
// Commits go to the write-ahead log, one file that only grows, so a power cut leaves a prefix of the commits. A durable
// commit is one fdatasync of the log (synchronous=FULL), which makes all earlier commits durable too. A commit with
// kOrdered does no fdatasync (NORMAL), except for one in some hundreds that moves the log into the database. That one
// is always synced, because a power cut would damage the database otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/state/state.h"

namespace mooring::manager {

// Whether a new state may be begun; called if the file is missing or empty.
using MayBegin = std::function<absl::Status()>;

// FAILED_PRECONDITION: another manager has the file open, or a newer program wrote it. INTERNAL: the file is damaged;
// the error says what to do. Other errors are those of `may_begin`. A watch of a revision from an earlier process gives
// OUT_OF_RANGE.
absl::StatusOr<std::unique_ptr<State>> OpenSqliteState(const std::string& path, const MayBegin& may_begin = {});

}  // namespace mooring::manager
