// Where a volume is staged and published on this host. Pure.
//
//   <root>/staging/<plugin>/<namespace>/<volume>/<attachment>[-<16 hex of the external id and the options>]
//                                                                              made by the manager, 0700
//   <root>/per-alloc/<namespace>/<volume>/<allocation>/<request>/<usage>       only its parent is
//
// As few directories as there can be: making one is the dearest of what an attach does in the kernel, on ext4.
// Names are escaped (state/keys.h). Below one root, which is what a plugin in a container has bound into it.
#ifndef MOORING_MANAGER_VOLUMES_VOLUME_PATHS_H_
#define MOORING_MANAGER_VOLUMES_VOLUME_PATHS_H_

#include <string>

#include "manager/records/records.h"

namespace mooring::manager {

// (d) 1: "rw-file-system-single-node-writer".
std::string UsageName(bool read_only, const Capability& capability);

// (d) 6: field by field; flags are replaced whole.
MountOptions Override(const MountOptions& of_volume, const MountOptions& of_request);

bool SaysReadOnly(const MountOptions& options);  // "ro" is among its flags

// What of a plugin's volume is below one directory, whoever uses it how: where it is staged, and where it is published.
std::string StagingsOf(const std::string& root, const std::string& plugin, const VolumeKey& volume);
std::string TargetsOf(const std::string& root, const VolumeKey& volume);

// Override without the "ro" of a request: a reader shares the stage of a writer, and its publish is read-only. With
// "ro" in the volume's own flags nothing is taken off, for what it names may not be writable at all.
MountOptions StagedOptions(const MountOptions& of_volume, MountOptions of_request);

bool AreEqual(const MountOptions& a, const MountOptions& b);  // in whichever order the flags are

// One for all users of a volume, readers and writers, whose `options` (StagedOptions) agree. Users with other options
// get another staging path, and so does another volume that was given the same name later: what the first one left
// staged is never taken for the second. Without both it is the plain one.
std::string StagingPath(const std::string& root, const std::string& plugin, const VolumeKey& volume,
                        const std::string& external_id, AttachmentMode attachment, const MountOptions& options);
std::string TargetPath(const std::string& root, const std::string& allocation, const std::string& request,
                       const VolumeKey& volume, const std::string& usage);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_VOLUMES_VOLUME_PATHS_H_
