// The end of a plugin that is stopped, and of what an earlier manager left of one that nobody wants.
#include <utility>

#include "base/status.h"
#include "manager/supervisor/supervised_plugin.h"

namespace mooring::manager {

// Tried once, though the manager is stopping; and on and on where it is not.
void SupervisedPlugin::WorkOnEnd() {
  const PluginRecord wanted = TakeWanted();
  Clock::time_point since = Clock::now();
  for (auto* instance : {&serving_, &starting_}) {
    if (*instance) endings_.Begin(std::move(*instance));
  }
  Show();
  for (;; since = Clock::now()) {
    AdoptLeft(wanted);
    absl::Status ended = endings_.TryAll(since);
    ended.Update(left_problem_);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = leaving_ || (left_.empty() && endings_.AreOver());
      ended_ = ended;
      ++tries_to_end_;
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
      if (leaving_) return false;
      if (std::exchange(hurry_, false)) return true;
    }
    if (Clock::now() >= look_again_at_ || (left_.empty() && endings_.AreOver())) return true;
    waker_.Wait(look_again_at_, {});
  }
}

}  // namespace mooring::manager
