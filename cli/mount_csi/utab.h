// libmount's table of what the kernel does not keep of a mount: there stands who unmounts it.
#ifndef MOORING_CLI_MOUNT_CSI_UTAB_H_
#define MOORING_CLI_MOUNT_CSI_UTAB_H_

#include <string>

#include "absl/status/status.h"

namespace mooring::cli::mount_csi {

// umount(8) of `target`, which is mounted, calls umount.csi from now on. Nothing mounted there: nothing is written.
absl::Status AddUnmountHelper(const std::string& target);

absl::Status RemoveUnmountHelper(const std::string& target);  // no entry is OK

}  // namespace mooring::cli::mount_csi

#endif  // MOORING_CLI_MOUNT_CSI_UTAB_H_
