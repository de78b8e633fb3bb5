// What happened, for people who watch: plugins registered and sick, volumes mounted, claims refused. In memory: the
// last few thousand; what must survive is in the state.
#ifndef MOORING_MANAGER_RECORDS_EVENTS_H_
#define MOORING_MANAGER_RECORDS_EVENTS_H_

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
  std::uint64_t number = 0;  // from 1, set by Add, as is the time
  Time time = {};
  bool bad = false;  // something failed or is sick
  std::string kind;  // "Mount volume", "Unmount volume", "registered", "deregistered", "health", "waiting", "claim", …
  std::string plugin;  // those that do not apply are empty
  std::string instance;
  std::optional<VolumeKey> volume;
  std::string allocation;
  std::string text;  // a sentence; without secrets and mount flags
};

// Who adds never waits for who reads.
class Events {
 public:
  static constexpr std::size_t kKept = 4096;

  void Add(Event event);  // and logs it

  // Those from `from` on (a number) that are kept still, oldest first; waits for one until `until`. CANCELLED: closed.
  absl::StatusOr<std::vector<Event>> Next(std::uint64_t from, std::chrono::steady_clock::time_point until);

  std::uint64_t last() const;  // the number of the newest; 0: none yet
  void Close();                // ends all waiting, now and later

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::uint64_t last_ = 0;
  bool closed_ = false;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_RECORDS_EVENTS_H_
