// Until when the end of a plugin's process is waited for. Others bring that forward while it is waited.
#ifndef MOORING_MANAGER_LAUNCH_END_DEADLINE_H_
#define MOORING_MANAGER_LAUNCH_END_DEADLINE_H_

#include <mutex>
#include <stop_token>

#include "manager/csi/csi_channel.h"

namespace mooring::manager {

// For any thread.
class EndDeadline {
 public:
  explicit EndDeadline(Clock::time_point until);

  void Lower(Clock::time_point until);  // a later one changes nothing
  void GiveUp();                        // nobody waits any more: the process is left as it is

  Clock::time_point until() const;
  std::stop_token changed() const;  // asked for before until(): stopped by the next Lower, and by GiveUp
  std::stop_token given_up() const { return given_up_.get_token(); }
  bool IsGivenUp() const { return given_up_.stop_requested(); }

 private:
  mutable std::mutex mutex_;  // of these
  Clock::time_point until_;
  std::stop_source changed_;  // another after each Lower

  std::stop_source given_up_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_END_DEADLINE_H_
