// The plugin's own directory.
#ifndef MOORING_PLUGIN_PROCESS_STATE_DIR_H_
#define MOORING_PLUGIN_PROCESS_STATE_DIR_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/real_directory.h"
#include "plugin/process/handover.h"

namespace mooring {

// Made where it is missing (0700), and opened; its path is the real one, since sources of mounts are used without
// following symbolic links. FAILED_PRECONDITION: nothing can be written there, or it is missing and none is to be made.
absl::StatusOr<RealDirectory> MakeStateDir(const std::string& path, IfMissing if_missing);

// The same of a directory for volumes, in a parent that is there.
absl::StatusOr<RealDirectory> MakePoolDirectory(const std::string& path, IfMissing if_missing);

// Then they become the user's. `pools` may lie in the state directory. FAILED_PRECONDITION: others may write in it, or
// it is somebody else's, or holds more than ours; the user may not.
absl::Status OwnStateDir(const RealDirectory& directory, const std::vector<std::string>& pools,
                         const Handover& handover);
absl::Status OwnPoolDirectory(const RealDirectory& directory, Holding holding, const Handover& handover);

// FAILED_PRECONDITION: this process may not write there, by the directory's mode or since it is read-only.
absl::Status CheckWritable(const std::string& directory, std::string_view what);

// Where the default pool keeps the volumes: what the mount helper is started for.
std::string VolumesDirectory(const std::string& state_dir);

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_STATE_DIR_H_
