// The processes that hold block volumes' devices open: mounter/loop/device_holder.h.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace mooring::testing {

std::vector<pid_t> HoldersOfDevice(const std::string& device);  // "/dev/loop3"
void KillHolders(const std::string& device);                    // waits for their end

}  // namespace mooring::testing
