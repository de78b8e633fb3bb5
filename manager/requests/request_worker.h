// Makes the calls that other hosts request, with the healthy controllers of this host.
//
// A call is made in three steps. Each commit compares the revisions that the step before has seen:
//
//   take    create request-workers/<id> under the lease of this host, if the request is unanswered
//   call    the local controller, if the lease is still valid
//   answer  put the answer into the request, and delete request-workers/<id>
//
// If this host dies, its lease ends and with it request-workers/<id>. Another host sees that, and takes the request. So
// a call may be made twice. CSI allows that: CSI 1.12 demands of each of these calls that it is idempotent. A host that
// stood still for longer than its lease writes no answer.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/events.h"
#include "manager/requests/controller_offers.h"
#include "manager/requests/request_table.h"
#include "manager/state/state.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

class RequestWorker {
 public:
  struct Settings {
    int width = 8;  // calls of a plugin at a time, so that a plugin that hangs blocks no other
    // The preferred host begins at once. Others wait between this time and its double, so that they seldom compete.
    Clock::duration head_start = std::chrono::seconds(1);
    Clock::duration spread = std::chrono::milliseconds(100);  // the longest pause before a request that nobody prefers
  };
  struct Counts {
    std::map<std::string, int> under_way;  // by the requester's host
    std::uint64_t answered = 0;            // with the plugin's response
    std::uint64_t failed = 0;              // with an error
    std::uint64_t retaken = 0;             // taken from a host that is gone; part of those above
    std::uint64_t dropped = 0;             // not answered: the request or the lease of this host had ended
  };

  // `local`: finds plugins of this host only. The references outlive the worker.
  RequestWorker(State& shared, PluginDirectory& local, ControllerOffers& offers, RequestTable& table, Events& events,
                WorkQueue& queue, std::string host, const Settings& settings);
  ~RequestWorker() { Stop(); }

  // Looks for requests to take. Called after each change of the requests and of the offers; waits for nothing.
  void Schedule();
  void BeginStop() { stop_.request_stop(); }  // takes no more requests
  void Stop();  // waits for the calls under way; those that end with CANCELLED are left to other hosts

  Counts counts() const;

 private:
  struct Taken {
    std::int64_t revision = 0;      // of the worker's key
    std::int64_t lease_number = 0;  // under which it was made
  };

  Clock::duration DelayFor(const OpenRequest& request) const;
  void Serve(const std::string& id, const std::string& plugin, bool in_doubt);
  void ServeLater(const std::string& id, const std::string& plugin, bool in_doubt);
  void ServeAfter(Clock::duration delay, const std::string& id, const std::string& plugin, bool in_doubt);
  absl::Status DeleteOwnKey(const std::string& id);
  void Forget(const std::string& id);

  absl::StatusOr<Taken> Take(const OpenRequest& request);
  absl::StatusOr<v1::ControllerAnswer> Work(const OpenRequest& request, const Taken& taken);
  absl::StatusOr<CsiMessages> Read(const OpenRequest& request);
  absl::Status CheckLease(const Taken& taken);
  absl::Status Answer(const OpenRequest& request, const Taken& taken, const v1::ControllerAnswer& answer);
  void GiveBack(const OpenRequest& request, const Taken& taken);
  void NoteTaken(const OpenRequest& request);
  void NoteOutcome(const OpenRequest& request, const absl::StatusOr<v1::ControllerAnswer>& answered);

  State& shared_;
  PluginDirectory& local_;
  ControllerOffers& offers_;
  RequestTable& table_;
  Events& events_;
  const std::string host_;
  const Settings settings_;
  OwedDeletes deletes_;

  mutable std::mutex mutex_;      // guards the next two
  std::set<std::string> queued_;  // ids of requests that wait, or whose call is made
  Counts counts_;

  std::stop_source stop_;
  WorkKind work_;  // the calls; last: they use all of the above
};

}  // namespace mooring::manager
