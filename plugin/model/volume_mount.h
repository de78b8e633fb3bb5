// Whose mount is it? The kernel says so itself, also where there is no record:
//
//   image: the loop device that it is of, or is, by its label, "mooring:<volume id>" ("mooring-ro:…" the read-only one)
//
//   tmpfs: the source of the mount, "mooring:<volume id>"
//
//   directory: its root, which has the volume's id as its name, and is the volume's by its inode
//
// A device of its own says nothing. Which one a volume has is written down (plugin/backends/device/device_backend.h),
// and its mounts are known by the number of the device.
#ifndef MOORING_PLUGIN_MODEL_VOLUME_MOUNT_H_
#define MOORING_PLUGIN_MODEL_VOLUME_MOUNT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "mounter/mounter.h"
#include "plugin/model/volume_source.h"

namespace mooring {

inline constexpr std::string_view kLabelPrefix = "mooring";  // of all loop devices and tmpfs of ours

std::string LabelFor(const std::string& volume_id);
std::string ReadOnlyLabelFor(const std::string& volume_id);

// The volume it belongs to; empty: none of ours. Of a mount alone: where no loop device says it.
std::string OwnerOf(const LoopInfo& loop);
std::string OwnerOf(const MountInfo& mount);
std::string OwnerOf(const PathInfo& info);

// Of a volume that its mounts alone tell: FAILED_PRECONDITION names where it is mounted. Reads the whole mount table.
absl::Status CheckNotMounted(Mounts& mounts, const std::string& volume_id);

// The device that is mounted, or whose node is bound; none: null.
const KnownDevice* DeviceBehind(const MountInfo& mount, const std::vector<KnownDevice>& devices);
const KnownDevice* DeviceBehind(const PathInfo& info, const std::vector<KnownDevice>& devices);

// Whether what is mounted there is this volume, and not another of the same name.
bool IsMountOf(const NodeVolume& volume, const PathInfo& place);

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_VOLUME_MOUNT_H_
