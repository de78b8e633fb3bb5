// The numbers and the names of block devices.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace mooring {

// The number of a block device such as "/dev/loop3" or "/dev/sda". Empty: there is no such device. The number of a loop
// device follows from its name, so its node need not exist.
std::optional<dev_t> DeviceNamed(std::string_view name);

// The kernel's name, from sysfs: "loop3". Empty: there is no such block device.
std::string BlockDeviceName(dev_t device);

}  // namespace mooring
