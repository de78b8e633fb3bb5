// What a thread waits on for a time, for a call to Wake, and for descriptors to become readable.
#ifndef MOORING_MANAGER_LAUNCH_WAKER_H_
#define MOORING_MANAGER_LAUNCH_WAKER_H_

#include <vector>

#include "base/file/unique_fd.h"
#include "manager/csi/csi_channel.h"

namespace mooring::manager {

class Waker {
 public:
  Waker();

  void Wake();  // from any thread; also for a wait that has not begun yet
  void Wait(Clock::time_point until, const std::vector<int>& descriptors);

 private:
  const UniqueFd event_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_WAKER_H_
