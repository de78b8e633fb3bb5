// Holds the loop devices of block volumes open, each in a process of its own (mounter/process/side_process.h).
//
// A block volume's device node is bound at a target, which does not open it. While no task has it open, `losetup -D` on
// the host would free the device. The kernel would give its number to the next file, and the task's device node would
// lead to another volume's disk. While a process holds the device open, LOOP_CLR_FD only sets autoclear.
//
// A holder outlives the plugin, its helper and the spawner, and ends with the host, with the container's process
// namespace, or by ReleaseDevice.
#pragma once

#include <sys/types.h>

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mounter.h"

namespace mooring {

inline constexpr std::string_view kHolderName = "mooring-hold";  // in ps

// The holders of the device, of whichever plugin, as far as /proc shows them.
absl::StatusOr<std::vector<pid_t>> HoldersOf(dev_t device);

// Starts a holder where this mount namespace has none. ABORTED: the device is another file's by now.
absl::Status HoldDevice(const LoopInfo& loop);

// Ends all holders of the device, and returns when they have closed it. UNAVAILABLE: one does not end.
absl::Status ReleaseDevice(dev_t device);

}  // namespace mooring
