#include "manager/plugins/instance_manager.h"

#include <fmt/format.h>

#include <utility>

namespace mooring::manager {

InstanceManager::InstanceManager(InstanceInfo instance, std::shared_ptr<CsiChannel> channel,
                                 Clock::duration last_inspection, OnChange on_change)
    : instance_(std::move(instance)),
      channel_(std::move(channel)),
      last_inspection_(last_inspection),
      on_change_(std::move(on_change)) {
  fingerprint_.problem = "not inspected yet";
}

void InstanceManager::Store(Fingerprint found) { Replace(std::move(found), /*is_last=*/false); }

void InstanceManager::Replace(Fingerprint found, bool is_last) {
  Fingerprint before;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stop_until_ && !is_last) return;
    before = std::exchange(fingerprint_, found);
  }
  if (!found.SameHealth(before) || !found.SameDescription(before)) on_change_(instance_, found, before);
}

void InstanceManager::BeginStop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!stop_until_) stop_until_ = Clock::now() + last_inspection_;
}

void InstanceManager::Stop() {
  BeginStop();
  std::call_once(stopped_, [this] {
    const Fingerprint known = fingerprint();
    Fingerprint last = InspectPlugin(*channel_, instance_.type, known, *stop_until_);
    if (last.healthy) {
      last.problem = "it was stopped";
    } else {
      channel_->Close();
      last.problem = fmt::format("it was stopped; before: {}", known.healthy ? last.problem : known.problem);
    }
    last.healthy = false;
    Replace(std::move(last), /*is_last=*/true);
  });
}

Fingerprint InstanceManager::fingerprint() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return fingerprint_;
}

ReadyPlugin InstanceManager::Now() const { return {instance_, fingerprint(), channel_}; }

}  // namespace mooring::manager
