// Background work on attachments: the restoration after a start, and everything that failed, until it succeeds.
//
// Each plugin has its own few threads, so a plugin that hangs delays only its own attachments. An attempt that fails is
// repeated after Settings::first_retry, then after twice that time, up to longest_retry.
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
#include "manager/attach/work_lanes.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"

namespace mooring::manager {

class RestoreQueue {
 public:
  using Key = std::pair<std::string, std::string>;  // allocation and request of a AttachmentRecord

  struct Settings {
    Clock::duration first_retry, longest_retry;
    int threads;  // for each plugin
  };
  struct Outcome {
    absl::Status status;   // an error: the attempt is repeated
    bool is_final = true;  // the restoration of this attachment is over; attachments below its path may start
  };
  using Attempt = std::function<Outcome(const Key& key)>;  // called from several threads

  RestoreQueue(const Settings& settings, Attempt attempt)
      : settings_(settings), attempt_(std::move(attempt)), lanes_(settings.threads) {}
  ~RestoreQueue() { Stop(); }

  // Starts the restoration of these records: records to be taken down first, parents before children. A record whose
  // attach path lies below another record's path waits for that one.
  void Restore(std::vector<AttachmentRecord> records);

  // Attempts `record` after `delay`. A record has one attempt to come at most.
  void Schedule(const AttachmentRecord& record, Clock::duration delay);

  void WaitUntilRestored(Clock::time_point until);
  int restoring() const;                               // records whose restoration is not over
  std::optional<Clock::duration> restored_in() const;  // time that the restoration took; nullopt: it is not over
  int waiting() const;                                 // records with an attempt to come

  void BeginStop();  // starts no more attempts
  void Stop();       // BeginStop, then waits for the attempts that run

 private:
  void Push(const Key& key, const std::string& plugin, Clock::duration pause, Clock::duration delay);
  void Run(const Key& key, const std::string& plugin, Clock::duration pause);
  void Conclude(const Key& key);

  const Settings settings_;
  const Attempt attempt_;

  mutable std::mutex mutex_;  // guards all below except lanes_
  std::condition_variable changed_;
  bool stopping_ = false;
  std::set<Key> scheduled_;
  std::set<Key> restoring_;
  Clock::time_point restore_began_ = {};
  std::optional<Clock::duration> restored_in_;
  std::map<Key, std::vector<AttachmentRecord>> children_;  // records that wait for the record with this key

  WorkLanes lanes_;
};

}  // namespace mooring::manager
