// The options of filesystems, and what the kernel says about them: fsopen(2), fspick(2) and fsconfig(2).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

// INVALID_ARGUMENT: an option that Mooring does not allow for this filesystem.
absl::Status CheckFilesystemOptions(const std::string& fs_type, const std::vector<FilesystemOption>& options);

// The request as libmount gets it: an ext4 without `errors` gets errors=remount-ro. Without SELinux there are no
// labels. mount(8) leaves those options out, too, so that a fstab serves all hosts.
MountRequest WithUsualOptions(MountRequest request);

// libmount's mount of the filesystem on `device` has failed with `error`. libmount does not tell why. So the kernel is
// asked once more, through a context that is never mounted. FAILED_PRECONDITION: the filesystem refuses the device or
// an option. The message holds the kernel's own words.
absl::Status ReasonOfRefusal(const MountRequest& request, const std::string& device, int error);

// Changes the options of a mounted filesystem through fspick(2), because libmount cannot, or has refused without
// telling why. FAILED_PRECONDITION: the filesystem does not take them now. The message holds the kernel's own words.
absl::Status ChangeByKernel(const UniqueFd& mount, const std::vector<FilesystemOption>& options);

}  // namespace mooring
