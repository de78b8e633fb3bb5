// The commands that free a volume in use.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/finding.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

// `paths` are the mount points of the volume. A path has a command only if its name, as kubelet and Nomad choose it,
// shows whether it is a target or a staging path. Targets come first, because a published volume cannot be unstaged.
Finding InUse(const std::string& volume_id, const std::vector<std::string>& paths);

// For a volume that is mounted at no path of this mount namespace, but at `path` in another.
Finding HeldElsewhere(const std::string& volume_id, const NamespaceView& view, const std::string& path);

}  // namespace mooring::cli::doctor_area
