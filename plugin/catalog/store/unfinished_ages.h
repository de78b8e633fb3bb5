// The time for which volumes and snapshots have been unfinished. Records have no times, so it counts from the first
// call of See that finds them.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plugin/catalog/store/catalog_store.h"

namespace mooring {

class UnfinishedAges {
 public:
  using Clock = std::chrono::steady_clock;

  // The age of the oldest record of each pool that has unfinished ones. A record that is not in `now` is finished.
  std::map<std::string, Clock::duration> See(const std::vector<UnfinishedRecord>& now, Clock::time_point at) {
    std::map<std::string, Clock::time_point> still;
    std::map<std::string, Clock::duration> oldest;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const UnfinishedRecord& record : now) {
      const auto known = since_.find(record.id);
      const Clock::time_point since = known == since_.end() ? at : known->second;
      still.emplace(record.id, since);
      oldest[record.pool] = std::max(oldest[record.pool], at - since);
    }
    since_ = std::move(still);
    return oldest;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Clock::time_point> since_;  // by id
};

}  // namespace mooring
