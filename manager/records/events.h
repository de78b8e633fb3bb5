// Events for people who follow the manager: a plugin was registered or is sick, a volume was mounted, a claim refused.
// Only the last few thousand are kept, in memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "manager/records/records.h"

namespace mooring::manager {

struct Event {
  std::uint64_t number = 0;  // from 1; Add sets number and time
  Time time = {};
  bool bad = false;  // an operation failed, or a plugin is sick
  std::string kind =
      {};  // "Mount volume", "Unmount volume", "registered", "deregistered", "health", "waiting", "claim", …
  std::string plugin = {};  // fields that do not apply are empty
  std::string instance = {};
  std::optional<VolumeKey> volume = {};
  std::string allocation = {};
  std::string text = {};  // a sentence, without secrets and mount flags
};

// Add never waits for readers.
class Events {
 public:
  static constexpr std::size_t kKept = 4096;

  void Add(Event event);  // and logs it

  // Gives the kept events from number `from` on, oldest first; waits for one until `until`. CANCELLED: closed.
  absl::StatusOr<std::vector<Event>> Next(std::uint64_t from, std::chrono::steady_clock::time_point until);

  std::uint64_t last() const;  // the number of the newest event; 0: none yet
  void Close();                // ends all waits, now and later

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::uint64_t last_ = 0;
  bool closed_ = false;
};

}  // namespace mooring::manager
