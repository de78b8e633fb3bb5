// What the manager needs of its host before anything else: directories of its own, a name, a root that is shared.
#ifndef MOORING_MANAGER_HOST_SETUP_H_
#define MOORING_MANAGER_HOST_SETUP_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/config.h"
#include "mounter/mounter.h"

namespace mooring::manager {

// Makes the directories of `config` where they are missing, and gives it with their real paths: sources and targets of
// mounts are used without following symbolic links. FAILED_PRECONDITION: others may write in one of them.
absl::StatusOr<Config> MakeDirectories(const Config& config);

// The name that this host has in the state: `asked`, else the one recorded in the state directory, else the host's.
// Recorded at once, for the host's name may change and its records do not. FAILED_PRECONDITION: records of another
// name are there. For the holder of the state's lock only.
absl::StatusOr<std::string> KeepHostName(const std::string& state_dir, const std::string& asked);

// What tells this manager's state from every other's, for marks on what others own: digits, made at the first start.
absl::StatusOr<std::string> KeepManagerId(const std::string& state_dir);

// What plugins mount below `root`, in namespaces of their own, has to arrive here, and what is mounted here has to
// arrive there: so it is on a shared mount, bound on itself where it is on none. Stays so: plugins that outlive the
// manager rely on it. Directories and files that an earlier boot left below `root` do not matter.
absl::Status ShareRoot(const std::string& root, Mounts& kernel);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_HOST_SETUP_H_
