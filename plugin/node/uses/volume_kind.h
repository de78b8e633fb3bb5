// The rules for a volume that follow from the kind of its backend (plugin/backends/registry.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plugin/model/volume_source.h"

namespace mooring {

Staging StagingOf(const NodeVolume& volume);

// Whether its filesystem fills the volume. The owner of a whole device chose the size of its filesystem.
bool IsSizedHere(const NodeVolume& volume);

bool ReusesSpace(const NodeVolume& volume);  // BackendTraits::reuses_space

bool IsClosed(const NodeVolume& volume);  // an encrypted volume without a mapping, so its path leads nowhere

// INVALID_ARGUMENT: volumes of this kind are no block devices, or have no choice of filesystem or filesystem options.
// FAILED_PRECONDITION: see CheckMode.
absl::Status CheckSuits(const NodeVolume& volume, const Capability& capability);

// INVALID_ARGUMENT: a mount flag is none of this filesystem. Requests without a filesystem, and without the volume's
// context, may have any flags. Empty: the filesystem is not known yet.
absl::Status CheckFlagsSuit(const NodeVolume& volume, const Capability& capability, std::string_view fs_type);

// Filesystems that are not made here stay as they are, and some have no owners. FAILED_PRECONDITION: the device of the
// volume holds such a filesystem, and an owner, a mode or a group is asked for its root directory.
absl::Status CheckOwnerSuits(const NodeVolume& volume, const Capability& capability, std::string_view fs_type);

// The options for mounting a tmpfs of this size, or changing its size.
std::vector<FilesystemOption> MemoryOptions(std::uint64_t bytes);

}  // namespace mooring
