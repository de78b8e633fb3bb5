#include "manager/supervisor/supervision_state.h"

#include <fmt/format.h>

#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/supervisor/seconds.h"
#include "manager/supervisor/supervised_instance.h"

namespace mooring::manager {

SupervisionState::SupervisionState(PluginRecord wanted)
    : wanted_(std::move(wanted)), terminating_(!wanted_.run && wanted_.endpoint.empty()) {}

void SupervisionState::Want(const PluginRecord& record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (VersionOf(record) != VersionOf(wanted_)) status_.restarts = 0;
  wanted_ = record;
  status_.failed.clear();
  hurry_ = true;
}

absl::Status SupervisionState::WaitUntilServing(Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  const std::string version = VersionOf(wanted_);
  const auto settled = [&] {
    return status_.serving == version || status_.failed == version || terminating_ || stopping_ ||
           VersionOf(wanted_) != version;
  };
  const bool in_time = changed_.wait_until(lock, until, settled);
  if (status_.serving == version) return absl::OkStatus();
  if (stopping_) return Stopping();
  const std::string problem = status_.problem.empty() ? "it has not answered yet" : status_.problem;
  if (!in_time) {
    return absl::DeadlineExceededError(
        fmt::format("plugin {} is not ready: {}; the manager goes on waiting for it", Quote(wanted_.name), problem));
  }
  if (status_.failed == version) {
    return Unavailable(
        fmt::format("plugin {} did not start: {}; the manager tries again", Quote(wanted_.name), problem));
  }
  return Aborted(fmt::format("plugin {} was stopped, or another version of it was declared, during the wait",
                             Quote(wanted_.name)));
}

void SupervisionState::BeginStop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

int SupervisionState::BeginTermination() {
  const std::lock_guard<std::mutex> lock(mutex_);
  hurry_ = true;
  if (!stopping_) terminating_ = true;
  changed_.notify_all();
  return tries_to_terminate_;
}

absl::Status SupervisionState::WaitUntilTerminated(int tried) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return over_ || tries_to_terminate_ > tried; });
  if (tries_to_terminate_ == 0 || absl::IsCancelled(terminated_)) {
    return Unavailable(fmt::format(
        "plugin {} has not ended yet, and the manager is stopping: the manager ends it after its next start",
        Quote(wanted_.name)));
  }
  return terminated_;
}

std::string SupervisionState::Text() const {
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

std::uint64_t SupervisionState::restarts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_.restarts_ever;
}

bool SupervisionState::IsOver() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return over_;
}

bool SupervisionState::FailedToTerminate() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !over_ && tries_to_terminate_ > 0;
}

PluginRecord SupervisionState::wanted() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return wanted_;
}

bool SupervisionState::TakeHurry() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(hurry_, false);
}

void SupervisionState::Update(const std::function<void(Status& status)>& change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  change(status_);
  changed_.notify_all();
}

bool SupervisionState::IsStopping() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

bool SupervisionState::IsTerminating() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return terminating_;
}

bool SupervisionState::NoteTermination(const absl::Status& outcome, bool nothing_left) {
  const std::lock_guard<std::mutex> lock(mutex_);
  over_ = stopping_ || nothing_left;
  terminated_ = outcome;
  ++tries_to_terminate_;
  changed_.notify_all();
  return over_;
}

void SupervisionState::NoteOver() {
  const std::lock_guard<std::mutex> lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

}  // namespace mooring::manager
