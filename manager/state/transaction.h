// Rules that every store applies to a transaction.
#pragma once

#include "absl/status/status.h"
#include "manager/state/state.h"

namespace mooring::manager {

// INVALID_ARGUMENT: a key is changed twice.
absl::Status CheckKeys(const Transaction& transaction);

// ABORTED: `compare` does not hold, because its key has revision `found` (0: it does not exist).
absl::Status CheckRevision(const Transaction::Compare& compare, std::int64_t found);

}  // namespace mooring::manager
