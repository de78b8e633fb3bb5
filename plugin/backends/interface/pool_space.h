// The free space of the filesystem that holds a pool.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/backends/interface/backend.h"

namespace mooring {

absl::StatusOr<BackendCapacity> SpaceIn(const std::string& directory);

// Asks in a thread of its own, because a file server that has stopped would hold the caller. `ask` copies what it uses:
// the thread may outlive the backend. UNAVAILABLE: no answer within half a second, or an earlier call still waits for
// one.
absl::StatusOr<BackendCapacity> AskInTime(const std::string& directory,
                                          std::function<absl::StatusOr<BackendCapacity>()> ask);

// OUT_OF_RANGE: it has less space left.
absl::Status CheckSpaceIn(const std::string& directory, std::uint64_t more_bytes);

}  // namespace mooring
