// The table in which libmount keeps what the kernel does not know about a mount, such as its unmount helper.
#ifndef MOORING_CLI_MOUNT_CSI_UTAB_H_
#define MOORING_CLI_MOUNT_CSI_UTAB_H_

#include <string>

#include "absl/status/status.h"

namespace mooring::cli::mount_csi {

// Makes umount(8) of `target` call umount.csi. Does nothing if no mount is there.
absl::Status AddUnmountHelper(const std::string& target);

absl::Status RemoveUnmountHelper(const std::string& target);  // OK if there is no entry

}  // namespace mooring::cli::mount_csi

#endif  // MOORING_CLI_MOUNT_CSI_UTAB_H_
