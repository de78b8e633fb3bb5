// Sends calls to controllers of other hosts as requests in the shared state, and waits for their answers.
//
//   requester                           shared state                               worker (request_worker.h)
//   Call ──────────────────────────▶ requests/<id>, request-secrets/<id> ──────▶ sees the request
//                                     request-workers/<id> ◀────────────────────── takes it, and calls the plugin
//   sees the answer ◀─────────────── requests/<id> with the answer ◀────────────── answers
//   deletes the record ────────────▶
#pragma once

#include <google/protobuf/message.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "manager/csi/csi_channel.h"
#include "manager/requests/controller_offers.h"
#include "manager/requests/request_table.h"
#include "manager/state/state.h"

namespace mooring::manager {

// Safe from several threads.
class RequestSender {
 public:
  struct Settings {
    Clock::duration patience = std::chrono::seconds(3);  // with a request that no host offers to answer any more
  };
  struct Counts {
    struct Waiting {
      int count = 0;
      Clock::duration longest = {};  // so far
    };
    std::map<std::string, Waiting> waiting;  // by the host that makes the call, or that should
    std::uint64_t answered = 0;              // also with an error of the plugin
    std::uint64_t failed = 0;                // without an answer
  };

  // The references outlive the sender.
  RequestSender(State& shared, ControllerOffers& offers, RequestTable& table, WorkQueue& queue, std::string host,
                const Settings& settings);

  // A call to the controller of `plugin`, as CsiChannel::Call. `preferred`: the host that should make it. `closed`:
  // ends the call with CANCELLED; call RequestTable::Wake after setting it. The plugin's error keeps its code and
  // message, except that CANCELLED is UNAVAILABLE. UNAVAILABLE: the state is away, or no host offers a controller of
  // the plugin. DEADLINE_EXCEEDED: no answer by `until`; no host begins the call after that. FAILED_PRECONDITION: the
  // request has secrets, and a host has no key file for them; or it is too large. CANCELLED: the manager is stopping.
  struct Target {
    ControllerFor controller;
    std::string preferred;
  };
  absl::Status Call(const Target& target, const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message& response, Clock::time_point until, const std::atomic<bool>& closed);

  Counts counts() const;
  void Stop() { deletes_.Stop(); }

 private:
  class Waiting;

  absl::StatusOr<v1::ControllerAnswer> Await(const Target& target, std::string_view call, const std::string& id,
                                             std::int64_t revision, Clock::time_point until,
                                             const std::atomic<bool>& closed);
  void Count(const absl::Status& outcome);

  State& shared_;
  ControllerOffers& offers_;
  RequestTable& table_;
  const std::string host_;
  const Settings settings_;
  OwedDeletes deletes_;
  mutable std::mutex mutex_;
  struct Open {
    std::string host;
    Clock::time_point since;
  };
  std::map<std::string, Open> waiting_;  // by request id; under mutex_
  Counts counts_;                        // without `waiting`; under mutex_
};

}  // namespace mooring::manager
