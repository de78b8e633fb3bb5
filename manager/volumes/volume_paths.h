// Where a volume is staged and published on this host.
//
//   <root>/staging/<plugin>/<namespace>/<volume>/<attachment>[-<16 hex of the external id and the options>]
//                                                        the manager makes the staging directory (mode 0700)
//   <root>/per-alloc/<namespace>/<volume>/<allocation>/<request>/<usage>
//                                                        the manager makes only the parent of a target (CSI 1.12)
//
// There are as few directories as possible, because mkdir(2) on ext4 is the slowest kernel call of an attach. Names are
// escaped (state/keys.h). All paths are below one root, which is bound into the containers of plugins.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "manager/records/records.h"
#include "mounter/mounter.h"

namespace mooring::manager {

// For example "rw-file-system-single-node-writer".
std::string UsageName(bool read_only, const Capability& capability);

// The options of the request replace those of the volume, field by field; flags as a whole.
MountOptions Override(const MountOptions& of_volume, const MountOptions& of_request);

bool SaysReadOnly(const MountOptions& options);  // "ro" is among its flags

// The directories that contain all staging paths, and all targets, of a volume.
std::string StagingsOf(const std::string& root, const std::string& plugin, const VolumeKey& volume);
std::string TargetsOf(const std::string& root, const VolumeKey& volume);

// Override without the "ro" of a request, because a reader shares the stage of a writer and is published read-only. A
// "ro" in the flags of the volume itself stays: its storage may not be writable.
MountOptions StagedOptions(const MountOptions& of_volume, MountOptions of_request);

bool AreEqual(const MountOptions& a, const MountOptions& b);  // whatever the order of the flags

// "ext4, noatime, password=***" for messages: the text after the "=" of a flag may be a password. "none" without
// options.
std::string ShownText(const MountOptions& options);

// All users of a volume with equal `options` (StagedOptions) share one staging path. A volume that gets the name of an
// earlier one has another external id, and so another path. A stage left by the first is never used for the second.
// Without external id and options the path has no hash.
std::string StagingPath(const std::string& root, const std::string& plugin, const VolumeKey& volume,
                        const std::string& external_id, AttachmentMode attachment, const MountOptions& options);
std::string TargetPath(const std::string& root, const std::string& allocation, const std::string& request,
                       const VolumeKey& volume, const std::string& usage);

// Makes `path` and its parents, with mode 0700. OK if they exist.
absl::Status MakeDirectories(const std::string& path);

// Removes `path` and its parents below `top`, up to the first that is not empty. `top` stays, because making it again
// for the next volume waits for the disk. OK if they are missing.
void RemoveEmptyDirectories(std::string path, const std::string& top);

// A mount, or a device node that a plugin made by mknod(2) instead of a bind mount.
inline bool IsMountOrDevice(const PathInfo& info) { return info.mount || info.kind == PathInfo::Kind::kBlockDevice; }

// Whether two paths lead to the same directory of the same filesystem, or to the same device.
inline bool IsSame(const PathInfo& a, const PathInfo& b) {
  return IsMountOrDevice(a) && IsMountOrDevice(b) && a.kind == b.kind && a.device == b.device &&
         (a.kind == PathInfo::Kind::kBlockDevice || a.inode == b.inode);
}

}  // namespace mooring::manager
