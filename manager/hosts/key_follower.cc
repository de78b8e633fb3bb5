#include "manager/hosts/key_follower.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "manager/csi/csi_channel.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kPoll{1};  // of a stop that does not end the watches

}  // namespace

KeyFollower::KeyFollower(State& state, std::string prefix, Reader reader, const Settings& settings)
    : state_(state),
      prefix_(std::move(prefix)),
      reader_(std::move(reader)),
      settings_(settings),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void KeyFollower::BeginStop() { thread_.request_stop(); }

void KeyFollower::Stop() {
  BeginStop();
  if (thread_.joinable()) thread_.join();
}

Clock::time_point KeyFollower::LastProgress() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return progress_;
}

void KeyFollower::NoteProgress() {
  const std::lock_guard<std::mutex> lock(mutex_);
  progress_ = Clock::now();
}

void KeyFollower::Run(const std::stop_token& stop) {
  BackOff pause(settings_.first_pause, settings_.longest_pause);
  while (!stop.stop_requested()) {
    lasted_ = false;
    const absl::Status status = Follow(stop);
    if (lasted_) pause.Reset();
    if (status.ok()) continue;
    log::Debug("cannot follow keys of the shared state; they are listed again",
               {{"prefix", prefix_}, {"cause", Message(status)}});
    pause.Fail();
    SleepUntil(stop, pause.next_try());
  }
}

// OK: it is time to list again.
absl::Status KeyFollower::Follow(const std::stop_token& stop) {
  MOORING_ASSIGN_OR_RETURN(const Listing listing, state_.List(prefix_));
  reader_.listed(listing);
  NoteProgress();
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<Watch> watch, state_.StartWatch(prefix_, listing.revision + 1));
  const Clock::time_point list_again = Clock::now() + settings_.list_again;
  while (!stop.stop_requested() && Clock::now() < list_again) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<Change> changes,
                             watch->Next(std::min(Clock::now() + kPoll, list_again)));
    lasted_ = true;
    if (changes.empty()) continue;
    reader_.changed(changes);
    NoteProgress();
  }
  return absl::OkStatus();
}

}  // namespace mooring::manager
