// The sources of the tmpfs that this process mounted, or met in the mount table. The source says which volume a tmpfs
// is, and before Linux 6.8 only the mount table tells it.
//
// A tmpfs is recognised by the device number and the file handle of its root, which has a random number in it. So a
// later filesystem with the same device number is another one, and no filesystem is asked for anything.
#pragma once

#include <optional>
#include <string>

#include "base/file/unique_fd.h"

namespace mooring {

// `root`: the root of a tmpfs, also O_PATH. Does nothing if it is not the root of its mount.
void RememberMemory(const UniqueFd& root, const std::string& source);

// Whether `place` may be the root of a tmpfs that RecallMemory does not know.
bool MayBeMemory(const UniqueFd& place);

// The source, if `place` is the root of such a tmpfs.
std::optional<std::string> RecallMemory(const UniqueFd& place);

}  // namespace mooring
