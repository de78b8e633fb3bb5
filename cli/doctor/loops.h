// Loop devices that nobody uses any more, and the way from a volume to what is mounted of it.
#ifndef MOORING_CLI_DOCTOR_LOOPS_H_
#define MOORING_CLI_DOCTOR_LOOPS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/doctor/finding.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

struct LoopFacts {
  std::string device;  // "/dev/loop3"
  dev_t number = 0;
  std::string backing_file;  // as sysfs has it, " (deleted)" cut off
  std::string label;         // lo_file_name; empty where this user may not ask
  bool deleted = false;
  bool held = false;     // a device-mapper or RAID device is on it
  bool mounted = false;  // an ext4 or xfs is, in whatever namespace
};

// From sysfs, and what root may ask the devices themselves. The path of the backing file is true where the device was
// attached in this mount namespace; the label is everywhere.
std::vector<LoopFacts> CollectLoops();

// A device that Mooring attached for a volume, by its label; `volume_id` empty: for any.
bool IsLabelledFor(const LoopFacts& loop, const std::string& volume_id);

bool IsUsed(const LoopFacts& loop, const std::vector<LoopFacts>& all, const MountGraph& graph);

// Those that nothing uses, over a deleted file, over an image in `volumes` (a directory, resolved), or labelled for a
// volume.
Findings FindLeakedLoops(const std::vector<LoopFacts>& loops, const MountGraph& graph, const std::string& volumes);

// The paths in `view` at which the loop's filesystem or device node is mounted.
std::vector<std::string> PathsOf(const LoopFacts& loop, const NamespaceView& view);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_LOOPS_H_
