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
  fingerprint_.words = "not looked at yet";
  thread_ = std::thread([this] { Run(); });
}

InstanceManager::~InstanceManager() { Stop(); }

void InstanceManager::Run() {
  for (;;) {
    Fingerprint found = TakeFingerprint(*channel_, instance_.type, fingerprint(), Clock::now() + settings_.deadline);
    if (IsStopping()) break;  // what it says now may come from Stop
    Settle(std::move(found));
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, Pause(), [this] { return stopping_; });
    if (stopping_) break;
  }
  LookForTheLastTime();
  const std::lock_guard<std::mutex> lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

void InstanceManager::LookForTheLastTime() {
  const Fingerprint known = fingerprint();
  Fingerprint last = TakeFingerprint(*channel_, instance_.type, known, stop_until_);
  if (last.healthy) {
    last.words = "it was stopped";
  } else {
    channel_->Close();
    last.words = fmt::format("it was stopped; before: {}", known.healthy ? last.words : known.words);
  }
  last.healthy = false;
  Settle(std::move(last));
}

bool InstanceManager::IsStopping() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

Clock::duration InstanceManager::Pause() const {
  if (!fingerprint_.complete) return settings_.retry_unsettled;
  return fingerprint_.healthy ? settings_.interval : settings_.interval_sick;
}

void InstanceManager::Settle(Fingerprint found) {
  bool changed = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed = !found.SameHealth(fingerprint_) || !found.SameDescription(fingerprint_);
    fingerprint_ = found;
    changed_.notify_all();
  }
  if (changed) on_change_(instance_, found);
}

void InstanceManager::BeginStop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(stopping_, true)) return;
  stop_until_ = Clock::now() + settings_.last_look;
  changed_.notify_all();
}

// A look that is under way may be at a plugin that hangs: it gets no more time than the last look.
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
