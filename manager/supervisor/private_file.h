// Small files of the manager beside a plugin's socket.
#ifndef MOORING_MANAGER_SUPERVISOR_PRIVATE_FILE_H_
#define MOORING_MANAGER_SUPERVISOR_PRIVATE_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace mooring::manager {

// The whole of it or nothing, 0600. It need not outlive a power cut: what it tells of does not.
absl::Status WritePrivateFile(const std::string& path, const std::string& contents);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_PRIVATE_FILE_H_
