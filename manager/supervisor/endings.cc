#include "manager/supervisor/endings.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "manager/csi/stop_token.h"

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
  for (const Ending& ending : endings_) {
    if (ending.deadline) ending.deadline->Lower(until);
  }
}

absl::Status Endings::TryAll(Clock::time_point since) {
  absl::Status first;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    for (Ending& ending : endings_) ending.try_now = ending.began < since;
    changed_.notify_all();
    const auto tried = [&](const Ending& ending) {
      return ending.over || (!ending.deadline && (leaving_ || (ending.tries > 0 && ending.began >= since)));
    };
    changed_.wait(lock, [&] { return std::all_of(endings_.begin(), endings_.end(), tried); });
    for (const Ending& ending : endings_) {
      if (!ending.over) first.Update(ending.last.ok() ? Stopping() : ending.last);
    }
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
  for (const Ending& ending : endings_) {
    if (ending.deadline) ending.deadline->GiveUp();
  }
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

void Endings::Work(Ending& ending) {
  for (;;) {
    const absl::Status status = TryToEnd(ending);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending.last = status;
      ending.over = status.ok();
      ending.deadline.reset();
      ++ending.tries;
      changed_.notify_all();
    }
    on_change_();
    std::unique_lock<std::mutex> lock(mutex_);
    if (ending.over) return;
    changed_.wait_for(lock, around_.settings.end_again, [&] { return leaving_ || ending.try_now; });
    if (leaving_) return;
  }
}

// From here on EndBy and BeginLeave reach it.
std::shared_ptr<EndDeadline> Endings::BeginTry(Ending& ending) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ending.began = Clock::now();
  ending.try_now = false;
  ending.deadline = std::make_shared<EndDeadline>(std::min(ending.began + around_.settings.end_time, end_by_));
  if (leaving_) ending.deadline->GiveUp();
  return ending.deadline;
}

// The first error is told here, since most have nobody to give it to.
absl::Status Endings::TryToEnd(Ending& ending) {
  SupervisedInstance& instance = *ending.instance;
  const std::shared_ptr<EndDeadline> deadline = BeginTry(ending);
  absl::Status status = instance.Deregister(around_.registry);
  status.Update(instance.End(*deadline));
  if (status.ok() && instance.IsOurs()) {
    Tell(around_.events, plugin_, "stopped", false, &instance, instance.Handle() + " has ended.");
  } else if (!status.ok() && ending.tries == 0 && !deadline->IsGivenUp()) {
    Tell(around_.events, plugin_, "failed", true, &instance,
         "It could not be ended, which is tried again: " + Message(status));
  }
  return status;
}

}  // namespace mooring::manager
