// The socket the plugin listens on.
#ifndef MOORING_PLUGIN_ENDPOINT_H_
#define MOORING_PLUGIN_ENDPOINT_H_

#include <string>

#include "absl/status/status.h"

namespace mooring {

// Makes way for a socket at `path`: one that a process before left behind is removed. FAILED_PRECONDITION: somebody
// listens there, or it is not a socket; NOT_FOUND: the directory is missing (the orchestrator or administrator makes
// it).
absl::Status ClearSocketPath(const std::string& path);

}  // namespace mooring

#endif  // MOORING_PLUGIN_ENDPOINT_H_
