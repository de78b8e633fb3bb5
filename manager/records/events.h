// Events for people who follow the manager: a plugin was registered or is sick, a volume was mounted, a claim refused.
// Only the last few thousand are kept, in memory: those of this host, and of the hosts that share its state.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
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
  std::string host = {};  // where it happened; Add sets it
};

// Add never waits for readers.
class Events {
 public:
  static constexpr std::size_t kKept = 4096;

  explicit Events(std::string host = "") : host_(std::move(host)) {}

  void Add(Event event);  // of this host; and logs it

  // Takes an event of another host. It keeps its time and host, and gets a number of this host. It is not logged here.
  void AddOfOther(Event event);

  // Gives the kept events from number `from` on, oldest first; waits for one until `until`. CANCELLED: closed.
  absl::StatusOr<std::vector<Event>> Next(std::uint64_t from, std::chrono::steady_clock::time_point until);

  std::uint64_t last() const;  // the number of the newest event; 0: none yet
  void Close();                // ends all waits, now and later

 private:
  void Store(Event event);  // called under mutex_

  const std::string host_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::uint64_t last_ = 0;
  bool closed_ = false;
};

}  // namespace mooring::manager
