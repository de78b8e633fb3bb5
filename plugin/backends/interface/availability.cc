#include "plugin/backends/interface/availability.h"

#include "base/status.h"

namespace mooring {

absl::Status Availability::Check(Clock::time_point now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!why_.empty()) return Unavailable("pool {} cannot be used yet: {}", pool_, why_);
  if (now - answered_ < kPatience) {
    return is_new_ ? Unavailable("pool {} cannot be used yet: it is being mounted now", pool_) : absl::OkStatus();
  }
  return Unavailable(
      "the file server of pool {} has not answered for {} s: see that it runs, and that this host reaches it", pool_,
      std::chrono::duration_cast<std::chrono::seconds>(now - answered_).count());
}

bool Availability::IsSilent(Clock::time_point now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return why_.empty() && !is_new_ && now - answered_ >= kPatience;
}

void Availability::Answered() {
  const std::lock_guard<std::mutex> lock(mutex_);
  answered_ = Clock::now();
  is_new_ = false;
  why_.clear();
}

void Availability::Failed(const absl::Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  why_ = Message(why);
}

void Availability::LeaveWork() {
  const std::lock_guard<std::mutex> lock(mutex_);
  work_left_ = true;
}

bool Availability::TakeLeftWork() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(work_left_, false);
}

}  // namespace mooring
