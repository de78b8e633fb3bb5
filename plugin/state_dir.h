// The plugin's own directory.
#ifndef MOORING_PLUGIN_STATE_DIR_H_
#define MOORING_PLUGIN_STATE_DIR_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "plugin/handover.h"

namespace mooring {

// Made where it is missing (0700); its real path, since sources of mounts are used without following symbolic links.
// FAILED_PRECONDITION: nothing can be written there.
absl::StatusOr<std::string> MakeStateDir(const std::string& path);

// Then it becomes the user's. FAILED_PRECONDITION: others may write in it, or it is somebody else's; the user may not.
absl::Status OwnStateDir(const std::string& path, const Handover& handover);

// Both, of a directory for volumes, in a parent that is there.
absl::StatusOr<std::string> MakePoolDirectory(const std::string& path, Holding holding, const Handover& handover);

// FAILED_PRECONDITION: this process may not write there, by the directory's mode or since it is read-only.
absl::Status CheckWritable(const std::string& directory, std::string_view what);

// Where the default pool keeps the volumes: what the mount helper is started for.
std::string VolumesDirectory(const std::string& state_dir);

}  // namespace mooring

#endif  // MOORING_PLUGIN_STATE_DIR_H_
