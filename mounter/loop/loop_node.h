// The nodes of loop devices, /dev/loopN and /dev/loop-control, which a container may lack or may not be allowed to
// open.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

std::string LoopPath(unsigned number);  // "/dev/loop3"

// Opens the node, and makes it where it is missing in /dev. Where another file has its name, the device is opened
// through another node. On failure errno says why.
UniqueFd OpenLoopNode(unsigned number, int flags);

// Whether the kernel has the device, bound or free.
bool LoopExists(unsigned number);

// The number of a device that was free at that moment, from the kernel. It is none for raw volumes
// (mounter/loop/raw_device.h), and none whose name in /dev another file has. FAILED_PRECONDITION: /dev/loop-control
// cannot be opened.
absl::StatusOr<unsigned> FreeLoopNumber();

// Adds a device that is bound to nothing. ALREADY_EXISTS: the number is in use, or free.
absl::Status AddLoop(unsigned number);

// False: the device is open or bound, or could not be removed.
bool RemoveLoop(unsigned number);

}  // namespace mooring
