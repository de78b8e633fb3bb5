// Work on attachments in the background: the restoration after a start, and everything that failed, until it succeeds.
// The restoration takes down records that are to be taken down first, and mounts parents before children.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "manager/records/records.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

class RestoreQueue {
 public:
  using Key = std::pair<std::string, std::string>;  // allocation and request of a AttachmentRecord

  struct Outcome {
    absl::Status status;   // an error: the attempt is repeated
    bool is_final = true;  // the restoration of this attachment is over; attachments below its path may start
  };
  using Attempt = std::function<Outcome(const Key& key)>;  // called from several threads

  RestoreQueue(WorkQueue& queue, WorkKind::Settings settings, Attempt attempt)
      : attempt_(std::move(attempt)), work_(queue, std::move(settings)) {}
  ~RestoreQueue() { Stop(); }

  // Starts the restoration of these records. A record whose attach path lies below that of another one waits for it.
  void Restore(std::vector<AttachmentRecord> records);

  // Attempts `record` after `delay`, or earlier if that was planned already.
  void Schedule(const AttachmentRecord& record, Clock::duration delay);

  void WaitUntilRestored(Clock::time_point until);
  int restoring() const;                               // records whose restoration is not over
  std::optional<Clock::duration> restored_in() const;  // time that the restoration took; nullopt: it is not over

  void BeginStop();  // starts no more attempts
  void Stop();       // BeginStop, then waits for the attempts that run

 private:
  absl::Status Run(const Key& key);
  void Conclude(const Key& key);

  const Attempt attempt_;

  mutable std::mutex mutex_;  // guards all below except work_
  std::condition_variable changed_;
  bool stopping_ = false;
  std::set<Key> restoring_;
  Clock::time_point restore_began_ = {};
  std::optional<Clock::duration> restored_in_;
  std::map<Key, std::vector<AttachmentRecord>> children_;  // records that wait for the record with this key

  WorkKind work_;
};

}  // namespace mooring::manager
