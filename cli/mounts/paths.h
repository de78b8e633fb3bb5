// Paths of the command line. The mounter wants them absolute and follows no symbolic link; people expect what mount(8)
// does. So links are resolved here, once, and what is swapped in afterwards is refused by the mounter.
#ifndef MOORING_CLI_MOUNTS_PATHS_H_
#define MOORING_CLI_MOUNTS_PATHS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring::cli::mounts_area {

// The absolute path without links, "." or "..". The last component need not be there, and is not asked anything: a
// mount whose server is dead can be named. FAILED_PRECONDITION: the directory above is not there, a link leads nowhere.
absl::StatusOr<std::string> ResolvePath(const std::string& given);

// `given`, in another mount namespace, where nothing can be resolved from here: INVALID_ARGUMENT unless absolute.
absl::StatusOr<std::string> PathElsewhere(const std::string& given);

// FAILED_PRECONDITION: this process may not mount.
absl::Status CheckMayMount();

}  // namespace mooring::cli::mounts_area

#endif  // MOORING_CLI_MOUNTS_PATHS_H_
