// Filesystems that are mounted and changed through a context: fsopen(2), fspick(2) and fsconfig(2).
#ifndef MOORING_MOUNTER_MOUNT_FILESYSTEM_CONTEXT_H_
#define MOORING_MOUNTER_MOUNT_FILESYSTEM_CONTEXT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

// A mount of the filesystem on `device` that is attached nowhere. It has none of the request's mount flags yet.
// FAILED_PRECONDITION: the filesystem refuses the device or an option. The message holds the kernel's own words.
absl::StatusOr<UniqueFd> OpenFilesystem(const MountRequest& request, const std::string& device);

// Changes options of the mounted filesystem, and so of all its mounts. FAILED_PRECONDITION: the filesystem does not
// take them now. The message holds the kernel's own words.
absl::Status ReconfigureFilesystem(const UniqueFd& mount, const std::vector<FilesystemOption>& options);

}  // namespace mooring

#endif  // MOORING_MOUNTER_MOUNT_FILESYSTEM_CONTEXT_H_
