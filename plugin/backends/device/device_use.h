// Whether something on this host uses the block device of a volume, and whether it holds data.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mounter.h"
#include "plugin/backends/interface/backend.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

// FAILED_PRECONDITION: the device, or a loop device of the volume over it, is mounted or claimed.
absl::Status CheckDeviceNotMounted(Mounter& mounter, const KnownDevice& device);
absl::Status CheckDeviceNotClaimed(Mounter& mounter, const KnownDevice& device);

// Backend::HoldsData of a volume that lies there. Only what was read proves that a device is empty, and of a raw one
// all of it has to be read.
bool DeviceHoldsData(Filesystems& filesystems, const absl::StatusOr<VolumeLocation>& location);

}  // namespace mooring
