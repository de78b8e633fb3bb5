// Holds the devices of block volumes open, each in a process of its own (mounter/process/side_process.h).
//
// A block volume's device node is bound at a target, which does not open it. While no task has it open,
//
//   - `losetup -D` on the host would detach the hold of a raw device and then the device (mounter/loop/raw_device.h).
//     While a process holds the device open, LOOP_CLR_FD only sets autoclear.
//   - the kernel keeps no data of a disk, logical volume or mapping that it could not write (LoopDevices::HoldDevice).
//
// A holder outlives the plugin, its helper and the spawner. It ends with the host, with the container's process
// namespace, or by ReleaseDevice.
#pragma once

#include <sys/types.h>

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

inline constexpr std::string_view kHolderName = "mooring-hold";  // in ps

// The holders of the device, of whichever plugin, as far as /proc shows them.
absl::StatusOr<std::vector<pid_t>> HoldersOf(dev_t device);

// Starts a holder of the open device.
absl::Status StartHolder(int fd);

// The same where this mount namespace has none. It looks at all processes.
absl::Status HoldDevice(int fd, dev_t device);

// Ends all holders of the device, and returns when they have closed it. UNAVAILABLE: one does not end.
absl::Status ReleaseDevice(dev_t device);

}  // namespace mooring
