// An event for a thread that waits for a time, for other threads, and for descriptors to become readable.
#pragma once

#include <vector>

#include "base/file/unique_fd.h"
#include "manager/csi/csi_channel.h"

namespace mooring::manager {

class WakeEvent {
 public:
  WakeEvent();

  void Wake();  // from any thread; a call before Wait ends the next Wait at once
  void Wait(Clock::time_point until, const std::vector<int>& descriptors);

 private:
  const UniqueFd event_;
};

}  // namespace mooring::manager
