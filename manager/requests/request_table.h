// The requests of all hosts and the hosts that make their calls, as the shared state shows them. Also the tools that
// RequestSender and RequestWorker share.
#pragma once

#include <google/protobuf/message.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager.pb.h"
#include "manager/csi/csi_channel.h"
#include "manager/hosts/key_follower.h"
#include "manager/state/state.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

// The messages of a call of CSI's controller service, as requests in the state have them.
struct CsiMessages {
  std::unique_ptr<google::protobuf::Message> request, response;
};

// Empty messages for "/csi.v1.Controller/CreateVolume". UNIMPLEMENTED: not a call of the controller service.
absl::StatusOr<CsiMessages> MessagesOf(const std::string& method);

std::string_view CallName(std::string_view method);  // "CreateVolume"

// FAILED_PRECONDITION: the message is larger than the 1 MiB that the state takes. `kind`: "request" or "answer".
absl::Status CheckSize(std::string_view kind, std::string_view call, const google::protobuf::Message& message);

// Deletes of keys in the shared state that must be made, also if the state is away now.
class OwedDeletes {
 public:
  OwedDeletes(State& shared, WorkQueue& queue)
      : shared_(shared),
        work_(queue, {.kind = "delete",
                      .first_retry = std::chrono::milliseconds(200),
                      .longest_retry = std::chrono::seconds(10)}) {}

  // Commits the deletes. If that fails, it is repeated in the background until it succeeds, or until a compare does not
  // hold. While the lease of this host is not valid, everything is left to the background.
  void Make(const Transaction& deletes);
  void MakeLater(const Transaction& deletes);  // leaves everything to the background

  void Stop() { work_.Stop(); }  // drops what is left: the keys end with the lease

 private:
  absl::Status Try(const Transaction& deletes);

  State& shared_;
  WorkKind work_;
};

// A request that nobody has answered yet.
struct OpenRequest {
  std::string id;
  std::shared_ptr<const v1::ControllerRequest> record;
  std::int64_t revision = 0;  // its modify revision
  Clock::time_point expires;  // the requester's deadline, or later by the time until this process saw the request
  bool was_taken = false;     // a host has taken it, and is gone
};

// Safe from several threads.
class RequestTable {
 public:
  // `shared` outlives the table. Starts at once.
  RequestTable(State& shared, WorkQueue& queue, const KeyFollower::Settings& settings);
  ~RequestTable() { Stop(); }

  void BeginStop();  // ends all waits
  void Stop();

  // The state of a request of this host.
  struct Progress {
    std::shared_ptr<const v1::ControllerRequest> answered;  // null: it has no answer
    bool deleted = false;  // the record does not exist any more: the lease of this host has ended
    std::string worker;    // the host that makes the call; empty: none
  };
  // Waits until the request is answered or deleted, `ended` holds, the table is stopped, or until `until`. `revision`:
  // of the commit that made it. Call Wake when `ended` has changed.
  Progress Wait(const std::string& id, std::int64_t revision, const std::function<bool()>& ended,
                Clock::time_point until);
  void Wake();
  bool stopping() const { return stopping_; }

  // The requests that no host has answered or taken.
  std::vector<OpenRequest> Open() const;
  std::optional<OpenRequest> FindOpen(const std::string& id) const;

  // `changed` is called after changes, with no lock held. Call this once, before there are requests.
  void OnChange(std::function<void()> changed);

  Clock::time_point LastProgress() const;  // of the older of the two watches

 private:
  struct Entry {
    std::shared_ptr<const v1::ControllerRequest> record;
    std::int64_t revision = 0;
    Clock::time_point expires;
  };
  using Workers = std::map<std::string, std::string>;  // request id -> host

  void RequestsListed(const Listing& all);
  void RequestsChanged(const std::vector<Change>& changes);
  void WorkersListed(const Listing& all);
  void WorkersChanged(const std::vector<Change>& changes);
  void Tell();

  // Called under mutex_:
  void Store(std::map<std::string, Entry>& entries, const KeyValue& stored) const;
  bool IsOpen(const std::string& id, const Entry& entry) const;
  OpenRequest ToOpen(const std::string& id, const Entry& entry) const;
  Progress Look(const std::string& id, std::int64_t revision) const;

  mutable std::mutex mutex_;  // guards all below, up to the followers
  std::condition_variable wake_;
  std::map<std::string, Entry> requests_;  // by id
  std::int64_t revision_ = 0;              // up to here the requests are known
  Workers workers_;
  std::set<std::string> left_;  // ids of requests that a worker has left; it may be seen before the request
  std::function<void()> changed_;
  std::atomic<bool> stopping_ = false;

  KeyFollower requests_follower_, workers_follower_;  // last: they end before the rest
};

}  // namespace mooring::manager
