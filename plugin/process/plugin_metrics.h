// The metrics of the plugin (docs/operations.md), with --metrics-listen.
//
//   rpc.cc ── each call ──▶ rpcs() ──▶ counters in memory
//   a scrape ──▶ Text() ──▶ reads the stores, the pools and the helper. It holds no lock that a call waits for
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "metrics/call_recorder.h"
#include "plugin/api/readiness.h"
#include "plugin/backends/pools.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/node/uses/node_store.h"

namespace mooring {

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
