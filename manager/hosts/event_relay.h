// Shares events with the managers of other hosts.
//
//   Events of this host ──▶ sender ──▶ shared/events/<this host>/<slot>, under the lease
//   shared/events/      ──▶ reader ──▶ Events of this host, marked with the host that they come from
//
// Each host has a ring of slots, so the state keeps its newest events, until its lease ends. While the state is away,
// events stay local; the newest ones are sent later.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "manager/hosts/key_follower.h"
#include "manager/records/events.h"
#include "manager/state/state.h"

namespace mooring::manager {

class EventRelay {
 public:
  static constexpr std::size_t kSlots = 256;
  static constexpr std::size_t kBatch = 50;       // events in one transaction
  static constexpr std::size_t kListed = 1024;    // the newest events of others that are taken from a list
  static constexpr std::size_t kMostText = 1024;  // bytes of a text; the rest stays on its host

  struct Settings {
    std::string host;
    std::string run;  // a random id of this process, because numbers of events start at 1 in each
    std::chrono::milliseconds send_every{500};  // at most one transaction in this time
    std::chrono::milliseconds retry{1000};      // after the state did not answer
  };

  // `events` has the name of this host. All outlive it. Starts at once.
  EventRelay(State& shared, Events& events, WorkQueue& queue, Settings settings);
  ~EventRelay() { Stop(); }

  // Quick after Events::Close and State::EndWatches; otherwise it takes up to a second.
  void Stop();

 private:
  struct Seen {
    std::string run;
    std::uint64_t number = 0;
  };

  void Send(const std::stop_token& stop);
  absl::Status PutOldest(std::size_t count);
  void TakeListed(const std::vector<KeyValue>& values);
  void TakePuts(const std::vector<Change>& changes);
  void Take(const KeyValue& value);

  State& shared_;
  Events& events_;
  const Settings settings_;
  std::deque<Event> unsent_;          // used by the sender only; at most kSlots
  std::uint64_t sent_ = 0;            // used by the sender only: decides on the next slot
  std::map<std::string, Seen> seen_;  // used by the reader only: the newest event of each other host
  KeyFollower reader_;                // it and the sender are last: they end before the rest
  std::jthread sender_;
};

}  // namespace mooring::manager
