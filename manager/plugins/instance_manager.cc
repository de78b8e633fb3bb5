#include "manager/plugins/instance_manager.h"

#include <fmt/format.h>

#include <utility>

namespace mooring::manager {

InstanceManager::InstanceManager(InstanceInfo instance, std::shared_ptr<CsiChannel> channel, Settings settings,
                                 OnChange on_change)
    : instance_(std::move(instance)),
      channel_(std::move(channel)),
      settings_(settings),
      on_change_(std::move(on_change)) {
  fingerprint_.problem = "not inspected yet";
  thread_ = std::thread([this] { Run(); });
}

InstanceManager::~InstanceManager() { Stop(); }

void InstanceManager::Run() {
  for (;;) {
    Fingerprint found = InspectPlugin(*channel_, instance_.type, fingerprint(), Clock::now() + settings_.deadline);
    if (IsStopping()) break;  // the error may be one that Stop has caused
    Store(std::move(found));
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, Pause(), [this] { return stopping_; });
    if (stopping_) break;
  }
  InspectLast();
  const std::lock_guard<std::mutex> lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

void InstanceManager::InspectLast() {
  const Fingerprint known = fingerprint();
  Fingerprint last = InspectPlugin(*channel_, instance_.type, known, stop_until_);
  if (last.healthy) {
    last.problem = "it was stopped";
  } else {
    channel_->Close();
    last.problem = fmt::format("it was stopped; before: {}", known.healthy ? last.problem : known.problem);
  }
  last.healthy = false;
  Store(std::move(last));
}

bool InstanceManager::IsStopping() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

Clock::duration InstanceManager::Pause() const {
  if (!fingerprint_.complete) return settings_.retry_incomplete;
  return fingerprint_.healthy ? settings_.interval : settings_.interval_sick;
}

void InstanceManager::Store(Fingerprint found) {
  Fingerprint before;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    before = std::exchange(fingerprint_, found);
    changed_.notify_all();
  }
  if (!found.SameHealth(before) || !found.SameDescription(before)) on_change_(instance_, found, before);
}

void InstanceManager::BeginStop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(stopping_, true)) return;
  stop_until_ = Clock::now() + settings_.last_inspection;
  changed_.notify_all();
}

// An inspection that is under way may hang. It gets no more time than the last inspection.
void InstanceManager::Stop() {
  const std::lock_guard<std::mutex> joining(joining_);
  if (!thread_.joinable()) return;
  BeginStop();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_until(lock, stop_until_, [this] { return done_; })) {
      lock.unlock();
      channel_->Close();
    }
  }
  thread_.join();
}

Fingerprint InstanceManager::fingerprint() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return fingerprint_;
}

ReadyPlugin InstanceManager::Now() const { return {instance_, fingerprint(), channel_}; }

}  // namespace mooring::manager
