// Where a volume is staged and published on this host. Pure.
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

#include "manager/records/records.h"

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

}  // namespace mooring::manager
