#include "manager/supervisor/supervised_plugin.h"

#include <fmt/format.h>

#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/supervisor/plugin_worker.h"
#include "manager/supervisor/supervised_instance.h"

namespace mooring::manager {
namespace {

constexpr char kNoThread[] = "it waits until the manager can start a thread for it";

}  // namespace

SupervisedPlugin::SupervisedPlugin(const SupervisorDependencies& deps, PluginRecord wanted,
                                   std::vector<InstanceDirectory> left)
    : name_(wanted.name),
      wanted_(std::move(wanted)),
      terminating_(!wanted_.run && wanted_.endpoint.empty()),
      terminator_(deps, name_, [this] { wake_.Wake(); }),
      supervision_(deps.work, {.kind = "supervision", .is_routine = true}) {
  const auto run = [this, &deps, left = std::move(left)]() noexcept {
    NoteBegun();
    PluginWorker(deps, *this, terminator_, wake_, left, stop_.get_token()).Run();
    return absl::OkStatus();
  };
  supervision_.Push({.key = name_, .lane = name_, .attempt = run});
}

SupervisedPlugin::~SupervisedPlugin() { Stop(); }

void SupervisedPlugin::Want(const PluginRecord& record) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (VersionOf(record) != VersionOf(wanted_)) status_.restarts = 0;
    wanted_ = record;
    status_.failed.clear();
    hurry_ = true;
  }
  WakeUp();
}

void SupervisedPlugin::WakeUp() {
  supervision_.TryNow();  // it may still wait for a thread
  wake_.Wake();
}

absl::Status SupervisedPlugin::WaitUntilServing(Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  const std::string version = VersionOf(wanted_);
  const auto settled = [&] {
    return status_.serving == version || status_.failed == version || terminating_ || stopping_ ||
           VersionOf(wanted_) != version;
  };
  const bool in_time = changed_.wait_until(lock, until, settled);
  if (status_.serving == version) return absl::OkStatus();
  if (stopping_) return Stopping();
  const std::string problem = !begun_                   ? kNoThread
                              : status_.problem.empty() ? "it has not answered yet"
                                                        : status_.problem;
  if (!in_time) {
    return absl::DeadlineExceededError(
        fmt::format("plugin {} is not ready: {}; the manager goes on waiting for it", Quote(name_), problem));
  }
  if (status_.failed == version) {
    return Unavailable("plugin {} did not start: {}; the manager tries again", Quote(name_), problem);
  }
  return Aborted("plugin {} was stopped, or another version of it was declared, during the wait", Quote(name_));
}

void SupervisedPlugin::EndSupervision() {
  stop_.request_stop();
  changed_.notify_all();
  WakeUp();
}

absl::Status SupervisedPlugin::Terminate(Clock::time_point until) {
  int tried = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tried = tries_to_terminate_;
    hurry_ = true;
    if (!stopping_) terminating_ = true;
  }
  EndSupervision();
  terminator_.EndBy(until);
  std::unique_lock<std::mutex> lock(mutex_);
  if (!changed_.wait_until(lock, until, [&] { return begun_ || over_; })) {
    return absl::DeadlineExceededError(fmt::format("plugin {} has not ended: {}", Quote(name_), kNoThread));
  }
  changed_.wait(lock, [&] { return over_ || tries_to_terminate_ > tried; });
  if (tries_to_terminate_ == 0 || absl::IsCancelled(terminated_)) {
    return Unavailable(
        "plugin {} has not ended yet, and the manager is stopping: the manager ends it after its next start",
        Quote(name_));
  }
  return terminated_;
}

void SupervisedPlugin::BeginStop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  terminator_.BeginStop();
  supervision_.BeginStop();
  if (!supervision_.Has(name_)) NoteOver();  // it never had a thread
  EndSupervision();
}

void SupervisedPlugin::Stop() {
  BeginStop();
  supervision_.Stop();
}

std::string SupervisedPlugin::StatusText() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto now = Clock::now();
  std::string text;
  if (!begun_) return kNoThread;
  if (!status_.serving.empty()) text = wanted_.run ? "runs as " + status_.handle : "";
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  if (status_.starting_since) add("starting for " + Seconds(now - *status_.starting_since));
  if (status_.restarts > 0) add(fmt::format("restarted {} times", status_.restarts));
  if (status_.next_try) add("next try in " + Seconds(*status_.next_try - now));
  if (!status_.problem.empty()) text += (text.empty() ? "" : ": ") + status_.problem;
  return text;
}

std::uint64_t SupervisedPlugin::restarts() const {
  return Locked([this] { return status_.restarts_ever; });
}
bool SupervisedPlugin::IsOver() const {
  return Locked([this] { return over_; });
}
bool SupervisedPlugin::FailedToTerminate() const {
  return Locked([this] { return !over_ && tries_to_terminate_ > 0; });
}
PluginRecord SupervisedPlugin::wanted() const {
  return Locked([this] { return wanted_; });
}
bool SupervisedPlugin::TakeHurry() {
  return Locked([this] { return std::exchange(hurry_, false); });
}
bool SupervisedPlugin::IsStopping() const {
  return Locked([this] { return stopping_; });
}
bool SupervisedPlugin::IsTerminating() const {
  return Locked([this] { return terminating_; });
}

void SupervisedPlugin::Update(const std::function<void(Status& status)>& change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  change(status_);
  changed_.notify_all();
}

bool SupervisedPlugin::NoteTermination(const absl::Status& outcome, bool nothing_left) {
  const std::lock_guard<std::mutex> lock(mutex_);
  over_ = stopping_ || nothing_left;
  terminated_ = outcome;
  ++tries_to_terminate_;
  changed_.notify_all();
  return over_;
}

void SupervisedPlugin::NoteBegun() {
  const std::lock_guard<std::mutex> lock(mutex_);
  begun_ = true;
  changed_.notify_all();
}

void SupervisedPlugin::NoteOver() {
  const std::lock_guard<std::mutex> lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

}  // namespace mooring::manager
