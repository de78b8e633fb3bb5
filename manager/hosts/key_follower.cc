#include "manager/hosts/key_follower.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kPoll{1};  // of a stop that does not end the watches

}  // namespace

KeyFollower::KeyFollower(State& state, WorkQueue& queue, std::string prefix, Reader reader, const Settings& settings)
    : state_(state),
      prefix_(std::move(prefix)),
      reader_(std::move(reader)),
      settings_(settings),
      work_(queue, {.kind = "watch",
                    .first_retry = settings.first_pause,
                    .longest_retry = settings.longest_pause,
                    .is_routine = true}) {
  work_.Repeat(prefix_, settings.first_pause, [this] { return Follow(); });
}

void KeyFollower::BeginStop() {
  work_.BeginStop();
  stop_.request_stop();
}

void KeyFollower::Stop() {
  BeginStop();
  work_.Stop();
}

Clock::time_point KeyFollower::LastProgress() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return progress_;
}

void KeyFollower::NoteProgress() {
  const std::lock_guard<std::mutex> lock(mutex_);
  progress_ = Clock::now();
}

// OK: it is time to list again.
absl::Status KeyFollower::Follow() {
  MOORING_ASSIGN_OR_RETURN(const Listing listing, state_.List(prefix_));
  reader_.listed(listing);
  NoteProgress();
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<Watch> watch, state_.StartWatch(prefix_, listing.revision + 1));
  const Clock::time_point list_again = Clock::now() + settings_.list_again;
  for (bool has_worked = false; !stop_.stop_requested() && Clock::now() < list_again; has_worked = true) {
    const auto changes = watch->Next(std::min(Clock::now() + kPoll, list_again));
    if (!changes.ok()) return has_worked ? absl::OkStatus() : changes.status();
    if (changes->empty()) continue;
    reader_.changed(*changes);
    NoteProgress();
  }
  return absl::OkStatus();
}

}  // namespace mooring::manager
