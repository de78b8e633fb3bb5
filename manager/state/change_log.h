// The changes of the last revisions, in memory, and the watches that read them: for a State of one process.
#ifndef MOORING_MANAGER_STATE_CHANGE_LOG_H_
#define MOORING_MANAGER_STATE_CHANGE_LOG_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "manager/state/state.h"

namespace mooring::manager {

// Shared by the state and its watches: whoever is in a watch when the state goes is told so. Safe from several threads.
class ChangeLog : public std::enable_shared_from_this<ChangeLog> {
 public:
  static constexpr std::size_t kKept = 1000;     // revisions; more while a watch has not read them
  static constexpr std::size_t kMost = 100'000;  // of a watch that is further behind: OUT_OF_RANGE

  // `revision`: the state's at the start. What it took to get there is not known.
  explicit ChangeLog(std::int64_t revision) : last_(revision) {}

  // The next revision; the values of secrets are not kept. Waits for no reader.
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
  std::deque<std::vector<Change>> revisions_;        // the newest is last_
  std::map<const Reader*, std::int64_t> positions_;  // the revision each one wants next
  std::int64_t last_;
  bool closed_ = false;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_STATE_CHANGE_LOG_H_
