// Finds the volume to which a mount belongs. The kernel knows it, also without a record:
//
//   loop device   by its label, "mooring:<volume id>", or "mooring-ro:<volume id>" for the read-only device
//
//                 a volume of a shared pool has "@<8 digits>" behind it, which stand for the node: two nodes may be on
//                 one kernel (SetNodeOfLabels)
//
//   tmpfs         by the source of the mount, "mooring:<volume id>"
//
//   directory     by the root of the mount, whose name is the volume id and whose inode is that of the volume; that of
//                 a subvolume also by st_dev
//
// A block device does not name its volume. A record does (plugin/backends/device/device_backend.h), or the name of its
// mapping (mounter/path/mapping_names.h, lvm_names.h). The device number identifies its mounts. The mapping of an
// encrypted volume has a number only while it is open.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "mounter/mounter.h"
#include "plugin/model/volume_source.h"

namespace mooring {

inline constexpr std::string_view kLabelPrefix = "mooring";  // of all loop devices and tmpfs of the plugin

// The node of this process. Call it before the first label is made. OwnerOf does not find the volumes of shared pools
// that another node uses.
void SetNodeOfLabels(const std::string& node_id);

std::string LabelFor(const std::string& volume_id);
std::string ReadOnlyLabelFor(const std::string& volume_id);

// The id of the volume; empty: no volume of this plugin. For a MountInfo the loop device is not considered.
std::string OwnerOf(const LoopInfo& loop);
std::string OwnerOf(const MountInfo& mount);
std::string OwnerOf(const PathInfo& info);

// FAILED_PRECONDITION: a directory or tmpfs volume is mounted; the error names the path. Reads the whole mount table.
absl::Status CheckNotMounted(Mounts& mounts, const std::string& volume_id);

// The device that is mounted, or whose node is bound; null: none of `devices`.
const KnownDevice* DeviceBehind(const MountInfo& mount, const std::vector<KnownDevice>& devices);
const KnownDevice* DeviceBehind(const PathInfo& info, const std::vector<KnownDevice>& devices);

// The mount of a volume, for a volume that may be unknown, and for a known one.
ExpectedMount ExpectedMountOf(const std::string& volume_id);
ExpectedMount ExpectedMountOf(const NodeVolume& volume);

// Whether this volume is mounted there, and not another directory of the same name.
bool IsMountOf(const NodeVolume& volume, const PathInfo& place);

}  // namespace mooring
