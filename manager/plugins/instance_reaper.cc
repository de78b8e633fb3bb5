#include "manager/plugins/instance_reaper.h"

#include <iterator>
#include <utility>

namespace mooring::manager {

InstanceReaper::InstanceReaper() : thread_([this] { Work(); }) {}

InstanceReaper::~InstanceReaper() { Finish(); }

void InstanceReaper::Stop(std::vector<std::shared_ptr<InstanceManager>> instances) {
  for (const auto& instance : instances) instance->BeginStop();
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_.insert(stopping_.end(), std::make_move_iterator(instances.begin()),
                   std::make_move_iterator(instances.end()));
  changed_.notify_all();
}

void InstanceReaper::Finish() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

// One after the other: their stops have begun at the same time, and end so.
void InstanceReaper::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!finishing_ || !stopping_.empty()) {
    changed_.wait(lock, [this] { return finishing_ || !stopping_.empty(); });
    auto batch = std::exchange(stopping_, {});
    lock.unlock();
    for (const auto& instance : batch) instance->Stop();
    batch.clear();
    lock.lock();
  }
}

}  // namespace mooring::manager
