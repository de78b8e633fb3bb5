// The plugin's own directory.
#ifndef MOORING_PLUGIN_STATE_DIR_H_
#define MOORING_PLUGIN_STATE_DIR_H_

#include <string>

#include "absl/status/statusor.h"

namespace mooring {

// Made where it is missing (0700); its real path, since sources of mounts are used without following symbolic links.
// FAILED_PRECONDITION: others may write in it.
absl::StatusOr<std::string> MakeStateDir(const std::string& path);

// The same of a directory for volumes, in a parent that is there.
absl::StatusOr<std::string> MakePoolDirectory(const std::string& path);

// Where the default pool keeps the volumes: what the mount helper is started for.
std::string VolumesDirectory(const std::string& state_dir);

}  // namespace mooring

#endif  // MOORING_PLUGIN_STATE_DIR_H_
