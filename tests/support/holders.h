// The processes that hold block volumes' devices open: mounter/loop/device_holder.h.
#ifndef MOORING_TESTS_SUPPORT_HOLDERS_H_
#define MOORING_TESTS_SUPPORT_HOLDERS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace mooring::testing {

std::vector<pid_t> HoldersOfDevice(const std::string& device);  // "/dev/loop3"
void KillHolders(const std::string& device);                    // waits for their end

}  // namespace mooring::testing

#endif  // MOORING_TESTS_SUPPORT_HOLDERS_H_
