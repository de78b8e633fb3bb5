#include "manager/supervisor/supervised_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/supervisor/seconds.h"

namespace mooring::manager {
SupervisedPlugin::SupervisedPlugin(const Surroundings& around, PluginRecord wanted, std::vector<InstanceDirectory> left)
    : around_(around),
      settings_(around.settings),
      name_(wanted.name),
      wanted_(std::move(wanted)),
      goal_(wanted_.run || !wanted_.endpoint.empty() ? Goal::kSupervise : Goal::kEnd),
      left_(std::move(left)),
      backoff_(around.settings.first_backoff),
      endings_(around, name_, [this] { waker_.Wake(); }),
      thread_([this] { Work(); }) {}

SupervisedPlugin::~SupervisedPlugin() { Leave(); }

void SupervisedPlugin::Want(const PluginRecord& record) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (VersionOf(record) != VersionOf(wanted_)) status_.restarts = 0;
    wanted_ = record;
    status_.failed.clear();
    hurry_ = true;
  }
  waker_.Wake();
}

absl::Status SupervisedPlugin::WaitUntilServing(Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  const std::string version = VersionOf(wanted_);
  const auto settled = [&] {
    return status_.serving == version || status_.failed == version || goal_ != Goal::kSupervise ||
           VersionOf(wanted_) != version;
  };
  const bool in_time = changed_.wait_until(lock, until, settled);
  if (status_.serving == version) return absl::OkStatus();
  if (leaving_) return Stopping();
  const std::string words = status_.words.empty() ? "it has said nothing yet" : status_.words;
  if (!in_time) {
    return absl::DeadlineExceededError(
        fmt::format("plugin {} is not ready: {}; it is waited for further", Quote(name_), words));
  }
  if (status_.failed == version) {
    return Unavailable(fmt::format("plugin {} did not start: {}; it is tried again", Quote(name_), words));
  }
  return Aborted(fmt::format("plugin {} was stopped or given another version meanwhile", Quote(name_)));
}

void SupervisedPlugin::Reach(Goal goal) {
  std::vector<std::weak_ptr<CsiChannel>> channels;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (goal_ == Goal::kSupervise) goal_ = goal;
    channels = channels_;
    changed_.notify_all();
  }
  stop_.request_stop();
  for (const auto& weak : channels) {
    if (const auto channel = weak.lock()) channel->Close();
  }
  waker_.Wake();
}

void SupervisedPlugin::Join() {
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

absl::Status SupervisedPlugin::End(Clock::time_point until) {
  int tried = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tried = tries_to_end_;
    hurry_ = true;
  }
  Reach(Goal::kEnd);
  endings_.EndBy(until);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return over_ || tries_to_end_ > tried; });
  if (tries_to_end_ == 0 || absl::IsCancelled(ended_)) {
    return Unavailable(
        fmt::format("plugin {} has not ended yet, and the manager is stopping: the next one ends it", Quote(name_)));
  }
  return ended_;
}

void SupervisedPlugin::BeginLeave() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    leaving_ = true;
  }
  endings_.BeginLeave();
  Reach(Goal::kLeave);
}

void SupervisedPlugin::Leave() {
  BeginLeave();
  Join();
}

bool SupervisedPlugin::IsOver() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return over_;
}

bool SupervisedPlugin::CouldNotBeEnded() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !over_ && tries_to_end_ > 0;
}

std::uint64_t SupervisedPlugin::restarts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return restarts_;
}

std::string SupervisedPlugin::Words() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto now = Clock::now();
  std::string words;
  if (!status_.serving.empty()) words = wanted_.run ? "runs as " + status_.handle : "";
  const auto add = [&words](const std::string& more) { words += (words.empty() ? "" : "; ") + more; };
  if (status_.starting_since) add("starting for " + Seconds(now - *status_.starting_since));
  if (status_.restarts > 0) add(fmt::format("restarted {} times", status_.restarts));
  if (status_.next_try) add("next try in " + Seconds(*status_.next_try - now));
  if (!status_.words.empty()) words += (words.empty() ? "" : ": ") + status_.words;
  return words;
}

SupervisedPlugin::Goal SupervisedPlugin::goal() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return goal_;
}

PluginRecord SupervisedPlugin::TakeWanted() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(hurry_, false)) next_try_ = Clock::now();
  return wanted_;
}

}  // namespace mooring::manager
