// Parts that implementations of State share.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/state/state.h"

namespace mooring::manager {

// INVALID_ARGUMENT: a key is changed twice.
absl::Status CheckKeys(const Transaction& transaction);

// ABORTED: `compare` does not hold, because its key has revision `found` (0: it does not exist).
absl::Status CheckRevision(const Transaction::Compare& compare, std::int64_t found);

// The changes of the last revisions, in memory, and the watches that read them. For a State that one process uses.
// The state and its watches share it, so that a watch may outlive the state; it then gets CANCELLED. Safe from several
// threads.
class ChangeLog : public std::enable_shared_from_this<ChangeLog> {
 public:
  static constexpr std::size_t kKept = 1000;     // revisions; more while a watch has not read them
  static constexpr std::size_t kMost = 100'000;  // a watch that is further behind gets OUT_OF_RANGE

  // `revision`: that of the state at the start. Earlier changes are not known.
  explicit ChangeLog(std::int64_t revision) : last_(revision) {}

  // Appends the next revision, without the values of secrets. Does not wait for readers.
  void Append(std::vector<Change> changes);

  std::unique_ptr<Watch> StartWatch(const std::string& prefix, std::int64_t from);

  void Close();  // ends all watches, now and later

 private:
  class Reader;

  absl::StatusOr<std::vector<Change>> Next(Reader& reader, std::chrono::steady_clock::time_point until);
  std::vector<Change> Read(Reader& reader) const;
  bool Forgotten(std::int64_t revision) const { return revision <= last_ && revision < First(); }
  std::int64_t First() const { return last_ + 1 - static_cast<std::int64_t>(revisions_.size()); }  // the oldest kept
  void Trim();
  void Remove(const Reader& reader);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<Change>> revisions_;        // the last element is revision last_
  std::map<const Reader*, std::int64_t> positions_;  // the revision that each reads next
  std::int64_t last_;
  bool closed_ = false;
};

// The lease of a store that one host uses alone: it never ends.
class EndlessLease final : public Lease {
 public:
  Clock::time_point ValidUntil() override { return Clock::time_point::max(); }
  Clock::time_point TakenAt() override { return taken_at_; }
  std::int64_t Number() override { return 1; }

 private:
  const Clock::time_point taken_at_ = Clock::now();
};

}  // namespace mooring::manager
