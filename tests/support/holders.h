// The processes that hold block volumes' devices open: mounter/loop/device_holder.h.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace mooring::testing {

std::vector<pid_t> HoldersOfDevice(const std::string& device);  // "/dev/loop3"
void KillHolders(const std::string& device);                    // waits for their end

// The loop devices that hold raw devices: mounter/loop/raw_device.h.
bool IsHold(const std::string& name);  // "loop65537"
std::string HoldOfDevice(
    const std::string& device);  // "/dev/loop65536" has "/dev/loop65537"; empty: it cannot have one
bool HasHold(const std::string& device);
void DetachHold(const std::string& device);

}  // namespace mooring::testing
