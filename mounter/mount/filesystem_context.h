// Filesystems that are mounted and changed through a context: fsopen(2), fspick(2) and fsconfig(2).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

// INVALID_ARGUMENT: an option that Mooring does not allow for this filesystem.
absl::Status CheckFilesystemOptions(const std::string& fs_type, const std::vector<FilesystemOption>& options);

// A mount of the filesystem on `device` that is attached nowhere. It has none of the request's mount flags yet.
// FAILED_PRECONDITION: the filesystem refuses the device or an option. The message holds the kernel's own words.
absl::StatusOr<UniqueFd> OpenFilesystem(const MountRequest& request, const std::string& device);

// Changes options of the mounted filesystem, and so of all its mounts. FAILED_PRECONDITION: the filesystem does not
// take them now. The message holds the kernel's own words.
absl::Status ReconfigureFilesystem(const UniqueFd& mount, const std::vector<FilesystemOption>& options);

}  // namespace mooring
