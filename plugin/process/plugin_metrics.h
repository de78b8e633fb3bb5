// The metrics of the plugin (docs/operations.md), with --metrics-listen.
//
//   rpc.cc ── each call ──▶ rpcs() ──▶ counters in memory
//   a scrape ──▶ Text() ──▶ reads the stores, the pools and the helper. It holds no lock that a call waits for
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "metrics/call_recorder.h"
#include "plugin/api/readiness.h"
#include "plugin/backends/pools.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/node/uses/node_store.h"

namespace mooring {

// The time for which volumes and snapshots have been unfinished. Records have no times, so it counts from the first
// call of See that finds them.
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

class PluginMetrics {
 public:
  // All outlive the metrics.
  struct Sources {
    const Pools& pools;
    CatalogStore& catalog;
    SnapshotStore& snapshots;
    NodeStore& node;
    const Readiness& readiness;
    std::function<absl::Status()> helper_health;
    std::function<std::uint64_t()> helper_restarts;
    std::function<std::size_t()> helper_hanging;
    std::function<absl::Status()> preflight;  // its last result
  };

  explicit PluginMetrics(Sources sources);
  ~PluginMetrics();

  CallRecorder& rpcs();

  // The page. A metric that cannot be read is left out, and a `…_up` metric is 0. A filesystem of a pool that hangs
  // blocks the caller.
  std::string Text() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mooring
