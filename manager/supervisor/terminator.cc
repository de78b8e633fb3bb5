#include "manager/supervisor/terminator.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "base/exception.h"
#include "base/status.h"

namespace mooring::manager {
namespace {

constexpr int kEndsAtOnce = 8;  // of one plugin

}  // namespace

Terminator::Terminator(const SupervisorDependencies& deps, std::string plugin, std::function<void()> on_change)
    : deps_(deps),
      plugin_(std::move(plugin)),
      on_change_(std::move(on_change)),
      ends_(deps.work, {.kind = "instance",
                        .width = kEndsAtOnce,
                        .first_retry = deps.settings.end_again,
                        .longest_retry = deps.settings.end_again}) {}

Terminator::~Terminator() { Stop(); }

void Terminator::Begin(std::unique_ptr<SupervisedInstance> instance) {
  (void)instance->Deregister(deps_.plugins);  // an error is ignored here: each try to end the instance repeats it
  const auto termination = std::make_shared<Termination>();
  termination->instance = std::move(instance);
  std::string key;  // unique, as neither an endpoint nor the number of a process is
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    terminations_.push_back(termination);
    key = fmt::format("end of {} ({})", termination->instance->Handle(), ++begun_);
  }
  ends_.Push({.key = key, .lane = plugin_, .attempt = [this, termination] { return Try(*termination); }});
}

void Terminator::EndBy(Clock::time_point until) {
  const std::lock_guard<std::mutex> lock(mutex_);
  end_by_ = std::min(end_by_, until);
  const auto now = Clock::now();
  for (const auto& each : terminations_) {
    // After its deadline the process was sent SIGKILL already.
    if (each->under_way && until < each->until && now < each->until) each->cut.request_stop();
  }
}

absl::Status Terminator::TryAll(Clock::time_point since) {
  ends_.TryNow();
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_tried = [&](const auto& each) {
    return !each->under_way && (stopping_ || (each->tries > 0 && each->began >= since));
  };
  changed_.wait(lock, [&] { return std::all_of(terminations_.begin(), terminations_.end(), is_tried); });
  absl::Status first;
  for (const auto& each : terminations_) first.Update(each->last.ok() ? Stopping() : each->last);
  return first;
}

bool Terminator::IsIdle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return terminations_.empty();
}

std::string Terminator::FailedInstance() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& each : terminations_) {
    if (!each->last.ok()) return each->instance->Handle();
  }
  return "";
}

void Terminator::BeginStop() {
  ends_.BeginStop();
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  for (const auto& each : terminations_) each->cut.request_stop();
  changed_.notify_all();
}

void Terminator::Stop() {
  BeginStop();
  ends_.Stop();
  std::vector<std::shared_ptr<Termination>> untried;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::copy_if(terminations_.begin(), terminations_.end(), std::back_inserter(untried),
                 [](const auto& each) { return each->tries == 0; });
  }
  for (const auto& each : untried) (void)Try(*each);  // its `cut` is stopped already, so it signals and does not wait
}

bool Terminator::IsStopping() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

// From here on EndBy and BeginStop reach the try through its `cut`.
std::stop_token Terminator::BeginTry(Termination& termination) {
  const std::lock_guard<std::mutex> lock(mutex_);
  termination.began = Clock::now();
  termination.until = std::min(termination.began + deps_.settings.end_time, end_by_);
  termination.under_way = true;
  termination.cut = std::stop_source();
  if (stopping_) termination.cut.request_stop();
  return termination.cut.get_token();
}

absl::Status Terminator::End(SupervisedInstance& instance, Clock::time_point until, const std::stop_token& cut) {
  try {
    absl::Status status = instance.Deregister(deps_.plugins);
    status.Update(instance.End(until, cut));
    return status;
  } catch (const std::exception& error) {  // an engine's answer, SQLite, out of memory
    return ExceptionStatus(error);
  }
}

// Reports the first error as an event, because most ends have no caller who would get it. The work holds `termination`
// until this returns.
absl::Status Terminator::Try(Termination& termination) {
  SupervisedInstance& instance = *termination.instance;
  std::stop_token cut;
  absl::Status status;
  do {  // again with the new deadline, where EndBy has changed it
    cut = BeginTry(termination);
    status = End(instance, termination.until, cut);
  } while (!status.ok() && cut.stop_requested() && !IsStopping());
  if (status.ok() && instance.IsOurs()) {
    AddEvent(deps_.events, plugin_, "stopped", false, &instance, instance.Handle() + " has ended.");
  } else if (!status.ok() && termination.tries == 0 && !cut.stop_requested()) {
    AddEvent(deps_.events, plugin_, "failed", true, &instance,
             "The process or container could not be ended; the manager tries again: " + Message(status));
  }
  Conclude(termination, status);
  return status;
}

void Terminator::Conclude(Termination& termination, const absl::Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    termination.last = status;
    termination.under_way = false;
    ++termination.tries;
    if (status.ok()) std::erase_if(terminations_, [&](const auto& each) { return each.get() == &termination; });
    changed_.notify_all();
  }
  on_change_();
}

}  // namespace mooring::manager
