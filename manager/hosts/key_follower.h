// Follows the keys below a prefix of the shared state: lists them, and then reads their changes from a watch.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/csi/csi_channel.h"
#include "manager/state/state.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

class KeyFollower {
 public:
  // Both are called by one thread at a time.
  struct Reader {
    std::function<void(const Listing& all)> listed;                   // replaces everything that was known before
    std::function<void(const std::vector<Change>& changes)> changed;  // after that
  };
  struct Settings {
    // A new list bounds the age of LastProgress, and mends what a fault of the store has lost.
    Clock::duration list_again = std::chrono::minutes(5);
    Clock::duration first_pause = std::chrono::milliseconds(100);  // after an error; the pauses double
    Clock::duration longest_pause = std::chrono::seconds(10);
  };

  // Starts at once. `state` and `queue` outlive the follower. An error of the state or of a watch, such as
  // OUT_OF_RANGE, leads to a new list after a pause.
  KeyFollower(State& state, WorkQueue& queue, std::string prefix, Reader reader, const Settings& settings);
  ~KeyFollower() { Stop(); }

  void BeginStop();
  void Stop();  // takes up to a second, but is quick after State::EndWatches

  // When the store last gave a list or a change. While it is away, this time stands still. It does so, too, while
  // nothing changes, for up to Settings::list_again.
  Clock::time_point LastProgress() const;

 private:
  absl::Status Follow();
  void NoteProgress();

  State& state_;
  const std::string prefix_;
  const Reader reader_;
  const Settings settings_;
  mutable std::mutex mutex_;
  Clock::time_point progress_ = Clock::now();  // under mutex_
  std::stop_source stop_;
  WorkKind work_;  // last: its attempts use all of the above
};

}  // namespace mooring::manager
