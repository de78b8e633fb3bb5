#include "manager/supervisor/supervised_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/supervisor/seconds.h"

namespace mooring::manager {

SupervisedPlugin::SupervisedPlugin(const SupervisorDependencies& deps, PluginRecord wanted,
                                   std::vector<InstanceDirectory> left)
    : deps_(deps),
      settings_(deps.settings),
      name_(wanted.name),
      wanted_(std::move(wanted)),
      goal_(wanted_.run || !wanted_.endpoint.empty() ? Goal::kSupervise : Goal::kTerminate),
      left_(std::move(left)),
      backoff_(deps.settings.first_backoff),
      terminator_(deps, name_, [this] { wake_.Wake(); }),
      thread_([this] { Work(); }) {}

SupervisedPlugin::~SupervisedPlugin() { Stop(); }

void SupervisedPlugin::Want(const PluginRecord& record) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (VersionOf(record) != VersionOf(wanted_)) status_.restarts = 0;
    wanted_ = record;
    status_.failed.clear();
    hurry_ = true;
  }
  wake_.Wake();
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
  if (stopping_) return Stopping();
  const std::string problem = status_.problem.empty() ? "it has not answered yet" : status_.problem;
  if (!in_time) {
    return absl::DeadlineExceededError(
        fmt::format("plugin {} is not ready: {}; the manager goes on waiting for it", Quote(name_), problem));
  }
  if (status_.failed == version) {
    return Unavailable(fmt::format("plugin {} did not start: {}; the manager tries again", Quote(name_), problem));
  }
  return Aborted(
      fmt::format("plugin {} was stopped, or another version of it was declared, during the wait", Quote(name_)));
}

void SupervisedPlugin::SetGoal(Goal goal) {
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
  wake_.Wake();
}

void SupervisedPlugin::Join() {
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

absl::Status SupervisedPlugin::Terminate(Clock::time_point until) {
  int tried = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tried = tries_to_terminate_;
    hurry_ = true;
  }
  SetGoal(Goal::kTerminate);
  terminator_.EndBy(until);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return over_ || tries_to_terminate_ > tried; });
  if (tries_to_terminate_ == 0 || absl::IsCancelled(terminated_)) {
    return Unavailable(fmt::format(
        "plugin {} has not ended yet, and the manager is stopping: the manager ends it after its next start",
        Quote(name_)));
  }
  return terminated_;
}

void SupervisedPlugin::BeginStop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  terminator_.BeginStop();
  SetGoal(Goal::kStop);
}

void SupervisedPlugin::Stop() {
  BeginStop();
  Join();
}

bool SupervisedPlugin::IsOver() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return over_;
}

bool SupervisedPlugin::FailedToTerminate() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !over_ && tries_to_terminate_ > 0;
}

std::uint64_t SupervisedPlugin::restarts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return restarts_;
}

std::string SupervisedPlugin::StatusText() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto now = Clock::now();
  std::string text;
  if (!status_.serving.empty()) text = wanted_.run ? "runs as " + status_.handle : "";
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  if (status_.starting_since) add("starting for " + Seconds(now - *status_.starting_since));
  if (status_.restarts > 0) add(fmt::format("restarted {} times", status_.restarts));
  if (status_.next_try) add("next try in " + Seconds(*status_.next_try - now));
  if (!status_.problem.empty()) text += (text.empty() ? "" : ": ") + status_.problem;
  return text;
}

SupervisedPlugin::Goal SupervisedPlugin::goal() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return goal_;
}

PluginRecord SupervisedPlugin::ReadWanted() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(hurry_, false)) next_try_ = Clock::now();
  return wanted_;
}

}  // namespace mooring::manager
