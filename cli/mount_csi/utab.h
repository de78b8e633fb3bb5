// The table in which libmount keeps what the kernel does not know about a mount, such as its unmount helper.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace mooring::cli::mount_csi {

// Makes umount(8) of `target` call umount.csi. Does nothing if no mount is there.
absl::Status AddUnmountHelper(const std::string& target);

absl::Status RemoveUnmountHelper(const std::string& target);  // OK if there is no entry

}  // namespace mooring::cli::mount_csi
