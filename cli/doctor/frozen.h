// Filesystems of volumes that are frozen, fsfreeze(8): every writer waits in the kernel, and no signal ends it.
//
// Nothing is asked of the filesystem itself: FIFREEZE would freeze one that is not, and a write would wait with the
// others. A frozen ext4 tells by its superblock: the kernel takes the flag needs_recovery off it, which every ext4 that
// is mounted writable with a journal has. Of xfs only the processes tell that wait to write, so it is said
// that it may be frozen.
#ifndef MOORING_CLI_DOCTOR_FROZEN_H_
#define MOORING_CLI_DOCTOR_FROZEN_H_

#include <vector>

#include "cli/doctor/finding.h"
#include "cli/doctor/loops.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

// As far as this user may read the devices and /proc/PID/wchan: root may.
Findings FindFrozen(const std::vector<LoopFacts>& loops, const MountGraph& graph);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_FROZEN_H_
