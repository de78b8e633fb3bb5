#include "manager/supervisor/endings.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/status.h"

namespace mooring::manager {

Endings::Endings(const Surroundings& around, std::string plugin, std::function<void()> on_change)
    : around_(around), plugin_(std::move(plugin)), on_change_(std::move(on_change)) {}

Endings::~Endings() { Leave(); }

void Endings::Begin(std::unique_ptr<SupervisedInstance> instance) {
  (void)instance->Deregister(around_.registry);  // where it fails: again with each try to end it
  ForgetEnded();
  const std::lock_guard<std::mutex> lock(mutex_);
  Ending& ending = endings_.emplace_back();
  ending.instance = std::move(instance);
  ending.thread = std::thread([this, &ending] { Work(ending); });
}

void Endings::EndBy(Clock::time_point until) {
  const std::lock_guard<std::mutex> lock(mutex_);
  end_by_ = std::min(end_by_, until);
}

absl::Status Endings::TryAll() {
  absl::Status first;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    std::map<const Ending*, int> tries;
    for (Ending& ending : endings_) {
      tries[&ending] = ending.tries;
      ending.try_now = true;
    }
    changed_.notify_all();
    const auto tried = [&](const auto& entry) {
      const auto& [ending, before] = entry;
      return ending->over || ending->tries > before || (leaving_ && !ending->trying);
    };
    changed_.wait(lock, [&] { return std::all_of(tries.begin(), tries.end(), tried); });
    for (const Ending& ending : endings_) first.Update(ending.last);
  }
  ForgetEnded();
  return first;
}

bool Endings::AreOver() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::all_of(endings_.begin(), endings_.end(), [](const Ending& ending) { return ending.over; });
}

std::string Endings::WhatHasFailed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Ending& ending : endings_) {
    if (!ending.last.ok()) return ending.instance->Handle();
  }
  return "";
}

void Endings::BeginLeave() {
  const std::lock_guard<std::mutex> lock(mutex_);
  leaving_ = true;
  changed_.notify_all();
}

void Endings::Leave() {
  BeginLeave();
  for (Ending& ending : endings_) {
    if (ending.thread.joinable()) ending.thread.join();
  }
}

void Endings::ForgetEnded() {
  std::list<Ending> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto next = endings_.begin(); next != endings_.end();) {
      const auto each = next++;
      if (each->over) ended.splice(ended.end(), endings_, each);
    }
  }
  for (Ending& ending : ended) ending.thread.join();
}

// Its first error is told here, since most have nobody to give it to.
void Endings::Work(Ending& ending) {
  for (;;) {
    const absl::Status status = TryToEnd(ending);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending.last = status;
      ending.over = status.ok();
      ending.trying = ending.try_now = false;
      ++ending.tries;
      changed_.notify_all();
    }
    on_change_();
    std::unique_lock<std::mutex> lock(mutex_);
    if (ending.over) return;
    changed_.wait_for(lock, around_.settings.end_again, [&] { return leaving_ || ending.try_now; });
    if (leaving_) return;
    ending.trying = true;
  }
}

absl::Status Endings::TryToEnd(Ending& ending) const {
  SupervisedInstance& instance = *ending.instance;
  Clock::time_point until = Clock::now() + around_.settings.end_time;
  bool first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    until = std::min(until, end_by_);
    first = ending.tries == 0;
  }
  absl::Status status = instance.Deregister(around_.registry);
  status.Update(instance.End(until));
  if (status.ok() && instance.IsOurs()) {
    Tell(around_.events, plugin_, "stopped", false, &instance, instance.Handle() + " has ended.");
  } else if (!status.ok() && first) {
    Tell(around_.events, plugin_, "failed", true, &instance,
         "It could not be ended, which is tried again: " + Message(status));
  }
  return status;
}

}  // namespace mooring::manager
