// Paths of the command line. The mounter accepts only absolute paths and follows no symbolic link, but people expect
// the behaviour of mount(8). So links are resolved here, once; the mounter refuses a link that appears afterwards.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring::cli::mounts_area {

// The absolute path without symbolic links, "." or "..". The last component need not exist, and this function does not
// look at it, so that it works for a mount whose server is dead. FAILED_PRECONDITION: the parent directory does not
// exist, or a link leads to nothing.
absl::StatusOr<std::string> ResolvePath(const std::string& given);

// The same in the mount namespace of the process `pid`; 0 is this one. A path in another namespace cannot be resolved
// from here. INVALID_ARGUMENT: it is not absolute.
absl::StatusOr<std::string> ResolvePathIn(pid_t pid, const std::string& given);

// The path by which this process reaches `path` in that namespace.
std::string PathFromHere(pid_t pid, const std::string& path);

// FAILED_PRECONDITION: this process may not mount.
absl::Status CheckMayMount();

}  // namespace mooring::cli::mounts_area
