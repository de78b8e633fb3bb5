// The device below a btrfs, whose st_dev is no device's.
#pragma once

#include <sys/types.h>

#include <optional>

namespace mooring {

// `place`: an open directory, also O_PATH. Empty: it is on no btrfs, or on one with several devices. It asks no server
// of a FUSE or NFS mount, which may hang. It may wait for a commit of the btrfs.
std::optional<dev_t> BtrfsDeviceOf(int place);

}  // namespace mooring
