// When something that has failed is tried again: after pauses that double up to a limit.
#pragma once

#include <algorithm>

#include "manager/csi/csi_channel.h"

namespace mooring::manager {

class BackOff {
 public:
  BackOff(Clock::duration first, Clock::duration longest) : first_(first), longest_(longest), pause_(first) {}

  void Fail() {
    next_try_ = Clock::now() + pause_;
    pause_ = std::min(2 * pause_, longest_);
  }
  void Reset() { pause_ = first_; }  // the next pause is the first again
  void TryNow() { next_try_ = Clock::now(); }
  Clock::time_point next_try() const { return next_try_; }

 private:
  const Clock::duration first_, longest_;
  Clock::duration pause_;
  Clock::time_point next_try_ = Clock::now();
};

}  // namespace mooring::manager
