// Loop devices that nobody uses any more, and the way from a volume to what is mounted of it.
#ifndef MOORING_CLI_DOCTOR_LOOPS_H_
#define MOORING_CLI_DOCTOR_LOOPS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/doctor/finding.h"
#include "mounter/mount_graph.h"

namespace mooring::cli::doctor_area {

struct LoopFacts {
  std::string device;  // "/dev/loop3"
  dev_t number = 0;
  std::string backing_file;  // as sysfs has it, " (deleted)" cut off
  bool deleted = false;
  bool held = false;     // a device-mapper or RAID device is on it
  bool mounted = false;  // an ext4 or xfs is, in whatever namespace
};

std::vector<LoopFacts> CollectLoops();  // from sysfs: nothing is opened, nobody need be root

bool IsUsed(const LoopFacts& loop, const std::vector<LoopFacts>& all, const MountGraph& graph);

// Those over a deleted file, and those over an image in `volumes` (a directory, resolved), that nothing uses.
Findings FindLeakedLoops(const std::vector<LoopFacts>& loops, const MountGraph& graph, const std::string& volumes);

// The paths in `view` at which the loop's filesystem or device node is mounted.
std::vector<std::string> PathsOf(const LoopFacts& loop, const NamespaceView& view);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_LOOPS_H_
