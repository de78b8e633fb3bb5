// The numbers, names and sizes of block devices.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring {

// The number of a block device such as "/dev/loop3" or "/dev/sda". Empty: there is no such device. The number of a loop
// device follows from its name, so its node need not exist.
std::optional<dev_t> DeviceNamed(std::string_view name);

// The kernel's name, from sysfs: "loop3". Empty: there is no such block device.
std::string BlockDeviceName(dev_t device);

// The number of the block device with the kernel's name, from sysfs. Empty: there is no such device.
std::optional<dev_t> BlockDeviceNumber(const std::string& name);

// The size of a block device, from sysfs. Nothing is opened. NOT_FOUND: there is no such device.
absl::StatusOr<std::uint64_t> BlockDeviceBytes(dev_t device);

// The device below a btrfs, whose st_dev is no device's. `place`: an open directory, also O_PATH. Empty: it is on no
// btrfs, or on one with several devices. It asks no server of a FUSE or NFS mount, which may hang. It may wait for a
// commit of the btrfs.
std::optional<dev_t> BtrfsDeviceOf(int place);

}  // namespace mooring
