// Subvolumes that a tenant has made inside its volume, when that is deleted.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"

namespace mooring {

// Deletes the subvolume and all inside, however a tenant has named, nested, limited or protected them. Nobody has it
// mounted. `top` is the open top of the btrfs, and `subvolume` the open root, whose path is short. `path` is for
// messages. If it fails, some may be gone, and others may have moved inside the subvolume: call again.
absl::Status DeleteWithInner(const UniqueFd& top, const UniqueFd& subvolume, const std::string& path);

// Whether the open directory is the root of a btrfs subvolume.
bool IsSubvolume(const UniqueFd& directory);

// A tenant can make a subvolume read-only. `path` is for messages.
absl::Status MakeWritable(const UniqueFd& subvolume, const std::string& path);

}  // namespace mooring
