// Finds frozen filesystems of volumes, fsfreeze(8): every writer waits in the kernel, and no signal ends the wait.
//
// There is no safe request to the filesystem itself: FIFREEZE would freeze it, and a write would wait. A frozen ext4
// shows in its superblock: the kernel clears the flag needs_recovery, which every ext4 has that is mounted writable
// with a journal. A frozen xfs shows only in the processes that wait to write, so the finding says that it may be
// frozen.
#pragma once

#include <vector>

#include "cli/doctor/finding.h"
#include "cli/doctor/loops.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

// Needs root, to read the devices and /proc/PID/wchan. Without it, the result is incomplete.
Findings FindFrozen(const std::vector<LoopFacts>& loops, const MountGraph& graph);

}  // namespace mooring::cli::doctor_area
