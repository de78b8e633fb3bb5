#include "manager/supervisor/terminator.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace mooring::manager {

Terminator::Terminator(const SupervisorDependencies& deps, std::string plugin, std::function<void()> on_change)
    : deps_(deps), plugin_(std::move(plugin)), on_change_(std::move(on_change)) {}

Terminator::~Terminator() { Stop(); }

void Terminator::Begin(std::unique_ptr<SupervisedInstance> instance) {
  (void)instance->Deregister(deps_.registry);  // an error is ignored here: each try to end the instance repeats it
  ForgetEnded();
  const std::lock_guard<std::mutex> lock(mutex_);
  Termination& termination = terminations_.emplace_back();
  termination.instance = std::move(instance);
  termination.thread = std::thread([this, &termination] { Work(termination); });
}

void Terminator::EndBy(Clock::time_point until) {
  const std::lock_guard<std::mutex> lock(mutex_);
  end_by_ = std::min(end_by_, until);
  const auto now = Clock::now();
  for (Termination& each : terminations_) {
    // After its deadline the process was sent SIGKILL already.
    if (each.under_way && until < each.until && now < each.until) each.cut.request_stop();
  }
}

absl::Status Terminator::TryAll(Clock::time_point since) {
  absl::Status first;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    for (Termination& each : terminations_) each.try_now = each.began < since;
    changed_.notify_all();
    const auto tried = [&](const Termination& each) {
      return each.over || (!each.under_way && (stopping_ || (each.tries > 0 && each.began >= since)));
    };
    changed_.wait(lock, [&] { return std::all_of(terminations_.begin(), terminations_.end(), tried); });
    for (const Termination& each : terminations_) {
      if (!each.over) first.Update(each.last.ok() ? Stopping() : each.last);
    }
  }
  ForgetEnded();
  return first;
}

bool Terminator::IsIdle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::all_of(terminations_.begin(), terminations_.end(), [](const Termination& each) { return each.over; });
}

std::string Terminator::FailedInstance() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Termination& each : terminations_) {
    if (!each.last.ok()) return each.instance->Handle();
  }
  return "";
}

void Terminator::BeginStop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  for (Termination& each : terminations_) each.cut.request_stop();
  changed_.notify_all();
}

void Terminator::Stop() {
  BeginStop();
  for (Termination& each : terminations_) {
    if (each.thread.joinable()) each.thread.join();
  }
}

bool Terminator::IsStopping() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

void Terminator::ForgetEnded() {
  std::list<Termination> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto next = terminations_.begin(); next != terminations_.end();) {
      const auto each = next++;
      if (each->over) ended.splice(ended.end(), terminations_, each);
    }
  }
  for (Termination& each : ended) each.thread.join();
}

void Terminator::Work(Termination& termination) {
  for (;;) {
    const absl::Status status = TryToEnd(termination);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      termination.last = status;
      termination.over = status.ok();
      termination.under_way = false;
      ++termination.tries;
      changed_.notify_all();
    }
    on_change_();
    std::unique_lock<std::mutex> lock(mutex_);
    if (termination.over) return;
    changed_.wait_for(lock, deps_.settings.end_again, [&] { return stopping_ || termination.try_now; });
    if (stopping_) return;
  }
}

// From here on EndBy and BeginStop reach the try through its `cut`.
std::stop_token Terminator::BeginTry(Termination& termination) {
  const std::lock_guard<std::mutex> lock(mutex_);
  termination.began = Clock::now();
  termination.until = std::min(termination.began + deps_.settings.end_time, end_by_);
  termination.try_now = false;
  termination.under_way = true;
  termination.cut = std::stop_source();
  if (stopping_) termination.cut.request_stop();
  return termination.cut.get_token();
}

// Reports the first error as an event, because most ends have no caller who would get it.
absl::Status Terminator::TryToEnd(Termination& termination) {
  SupervisedInstance& instance = *termination.instance;
  std::stop_token cut;
  absl::Status status;
  do {  // again with the new deadline, where EndBy has changed it
    cut = BeginTry(termination);
    status = instance.Deregister(deps_.registry);
    status.Update(instance.End(termination.until, cut));
  } while (!status.ok() && cut.stop_requested() && !IsStopping());
  if (status.ok() && instance.IsOurs()) {
    AddEvent(deps_.events, plugin_, "stopped", false, &instance, instance.Handle() + " has ended.");
  } else if (!status.ok() && termination.tries == 0 && !cut.stop_requested()) {
    AddEvent(deps_.events, plugin_, "failed", true, &instance,
             "The process or container could not be ended; the manager tries again: " + Message(status));
  }
  return status;
}

}  // namespace mooring::manager
