// Finds unused loop devices, and the mounts of a volume.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/doctor/finding.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

struct LoopFacts {
  std::string device;  // "/dev/loop3"
  dev_t number = 0;
  std::string backing_file;  // from sysfs, without " (deleted)"
  std::string label;         // lo_file_name; empty if this user may not read it
  bool deleted = false;
  bool held = false;     // by a device-mapper or RAID device, a partition or swap
  bool mounted = false;  // an ext4 or xfs on it is mounted, in any namespace
};

// Reads sysfs and, as root, the devices. The path of the backing file is valid if the device was attached in this mount
// namespace; the label is valid everywhere.
std::vector<LoopFacts> CollectLoops();

// Whether Mooring attached the device for this volume, by its label. An empty `volume_id` means any volume.
bool IsLabelledFor(const LoopFacts& loop, const std::string& volume_id);

bool IsUsed(const LoopFacts& loop, const std::vector<LoopFacts>& all, const MountGraph& graph);

// The unused devices over a deleted file, over an image in the directory `volumes` (without symbolic links), or with
// the label of a volume.
Findings FindLeakedLoops(const std::vector<LoopFacts>& loops, const MountGraph& graph, const std::string& volumes);

// The paths in `view` at which the loop's filesystem or device node is mounted.
std::vector<std::string> PathsOf(const LoopFacts& loop, const NamespaceView& view);

}  // namespace mooring::cli::doctor_area
