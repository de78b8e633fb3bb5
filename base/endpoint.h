// The socket that a server of ours listens on.
#ifndef MOORING_BASE_ENDPOINT_H_
#define MOORING_BASE_ENDPOINT_H_

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// Held from ClearSocketPath until the socket listens: two that find one stale socket would else remove what the other
// has just bound. It is the directory's flock(2), so that no file is left beside the socket. Others hold it for
// milliseconds; FAILED_PRECONDITION after `patience`. `flag` is what says which socket it is: "--endpoint".
absl::StatusOr<UniqueFd> LockSocketDirectory(const std::string& socket_path, std::string_view flag,
                                             std::chrono::milliseconds patience = std::chrono::seconds(5));

// Makes way for a socket at `path`: one that a process before left behind is removed. FAILED_PRECONDITION: somebody
// listens there, or it is not a socket; NOT_FOUND: the directory is missing (the orchestrator or administrator makes
// it).
absl::Status ClearSocketPath(const std::string& path, std::string_view flag);

// The same without removing anything: true where there is a socket that nobody serves any more. `advice` is what to do
// where somebody does.
absl::StatusOr<bool> IsStaleSocket(const std::string& path, std::string_view advice);

}  // namespace mooring

#endif  // MOORING_BASE_ENDPOINT_H_
