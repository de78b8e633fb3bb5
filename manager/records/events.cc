#include "manager/records/events.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

void Log(const Event& event) {
  log::Fields fields = {{"kind", event.kind}};
  if (!event.plugin.empty()) fields.emplace_back("plugin", event.plugin);
  if (!event.instance.empty()) fields.emplace_back("instance", event.instance);
  if (event.volume) fields.emplace_back("volume", event.volume->ns + "/" + event.volume->id);
  if (!event.allocation.empty()) fields.emplace_back("allocation", event.allocation);
  if (!event.text.empty()) fields.emplace_back("text", event.text);
  log::Write(event.bad ? log::Level::kWarning : log::Level::kInfo, "event", fields);
}

}  // namespace

void Events::Add(Event event) {
  Log(event);
  const std::lock_guard<std::mutex> lock(mutex_);
  event.time = std::chrono::system_clock::now();
  event.host = host_;
  Store(std::move(event));
}

void Events::AddOfOther(Event event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Store(std::move(event));
}

void Events::Store(Event event) {
  event.number = ++last_;
  events_.push_back(std::move(event));
  if (events_.size() > kKept) events_.pop_front();
  changed_.notify_all();
}

absl::StatusOr<std::vector<Event>> Events::Next(std::uint64_t from, std::chrono::steady_clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_until(lock, until, [&] { return closed_ || last_ >= std::max<std::uint64_t>(from, 1); });
  if (closed_) return absl::CancelledError("the manager is stopping");
  const auto first = std::find_if(events_.begin(), events_.end(), [&](const Event& e) { return e.number >= from; });
  return std::vector<Event>(first, events_.end());
}

std::uint64_t Events::last() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return last_;
}

void Events::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace mooring::manager
