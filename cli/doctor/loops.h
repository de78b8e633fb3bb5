// The loop devices and mounts of volumes: unused devices, frozen filesystems, volumes in use.
//
// A frozen filesystem, fsfreeze(8), lets every writer wait in the kernel, and no signal ends the wait. There is no safe
// request to the filesystem itself: FIFREEZE would freeze it, and a write would wait. A frozen ext4 shows in its
// superblock: the kernel clears the flag needs_recovery, which every ext4 has that is mounted writable with a journal.
// A frozen xfs shows only in the processes that wait to write, so the finding says that it may be frozen.
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
  bool held = false;     // by a RAID device, a partition, swap or a device-mapper device that is not `mapping`
  bool mounted = false;  // an ext4 or xfs on it is mounted, in any namespace

  // The open encrypted volume in the file, which holds the loop device; empty: there is none.
  std::string mapping;         // its name below /dev/mapper
  std::string mapping_device;  // "/dev/dm-3"
  dev_t mapping_number = 0;

  // The device of the volume's content.
  const std::string& content_device() const { return mapping.empty() ? device : mapping_device; }
  dev_t content_number() const { return mapping.empty() ? number : mapping_number; }
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

// The paths in `view` at which the filesystem or device node of the loop device's content is mounted.
std::vector<std::string> PathsOf(const LoopFacts& loop, const NamespaceView& view);

// Finds frozen filesystems. Needs root, to read the devices and /proc/PID/wchan. Without it, the result is incomplete.
Findings FindFrozen(const std::vector<LoopFacts>& loops, const MountGraph& graph);

// Finds the commands that free a volume in use. `paths` are the mount points of the volume. A path has a command only
// if its name, as kubelet and Nomad choose it, shows whether it is a target or a staging path. Targets come first,
// because a published volume cannot be unstaged.
Finding InUse(const std::string& volume_id, const std::vector<std::string>& paths);

// For a volume that is mounted at no path of this mount namespace, but at `path` in another.
Finding HeldElsewhere(const std::string& volume_id, const NamespaceView& view, const std::string& path);

}  // namespace mooring::cli::doctor_area
