// Ends a plugin that is stopped, and instances that an earlier manager left of a plugin that nobody declares.
#include <utility>

#include "base/status.h"
#include "manager/supervisor/supervised_plugin.h"

namespace mooring::manager {

// Tries at least once, also while the manager is stopping. Otherwise tries until nothing is left.
void SupervisedPlugin::WorkOnTermination() {
  const PluginRecord wanted = ReadWanted();
  Clock::time_point since = Clock::now();
  for (auto* instance : {&serving_, &starting_}) {
    if (*instance) terminator_.Begin(std::move(*instance));
  }
  UpdateStatus();
  for (;; since = Clock::now()) {
    AdoptLeft(wanted);
    absl::Status ended = terminator_.TryAll(since);
    ended.Update(left_problem_);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = stopping_ || (left_.empty() && terminator_.IsIdle());
      terminated_ = ended;
      ++tries_to_terminate_;
      changed_.notify_all();
      if (over_) return;
    }
    if (!AwaitNextTry()) return;
  }
}

bool SupervisedPlugin::AwaitNextTry() {
  for (;;) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return false;
      if (std::exchange(hurry_, false)) return true;
    }
    if (Clock::now() >= adopt_again_at_ || (left_.empty() && terminator_.IsIdle())) return true;
    wake_.Wait(adopt_again_at_, {});
  }
}

}  // namespace mooring::manager
