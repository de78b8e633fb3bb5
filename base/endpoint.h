// The socket that a Mooring server listens on.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// Locks the directory of a socket. Hold the lock from before ClearSocketPath until the socket listens. Without it, two
// servers that find one stale socket can each remove the new socket of the other.
// It is the flock(2) of the directory, so no lock file is left beside the socket. Servers hold it for milliseconds.
// FAILED_PRECONDITION: another process still holds it after `patience`. `flag` is the flag that names the socket, such
// as "--endpoint".
absl::StatusOr<UniqueFd> LockSocketDirectory(const std::string& socket_path, std::string_view flag,
                                             std::chrono::milliseconds patience = std::chrono::seconds(5));

// Removes a stale socket at `path`, left behind by an earlier process.
// FAILED_PRECONDITION: another process serves the socket, or the file is not a socket. NOT_FOUND: the directory is
// missing; the orchestrator or the administrator creates it.
absl::Status ClearSocketPath(const std::string& path, std::string_view flag);

// Whether there is a stale socket at `path`, which no process serves. Errors as above; `advice` ends the error for a
// socket that is served.
absl::StatusOr<bool> IsStaleSocket(const std::string& path, std::string_view advice);

}  // namespace mooring
