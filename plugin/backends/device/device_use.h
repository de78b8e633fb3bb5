// Whether something on this host uses the block device of a volume.
#pragma once

#include "absl/status/status.h"
#include "mounter/mounter.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

// FAILED_PRECONDITION: the device, or a loop device of the volume over it, is mounted or claimed.
absl::Status CheckDeviceNotMounted(Mounter& mounter, const KnownDevice& device);
absl::Status CheckDeviceNotClaimed(Mounter& mounter, const KnownDevice& device);

}  // namespace mooring
