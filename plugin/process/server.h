// Owns all parts of the plugin: stores, catalogs, services. main() connects it to the process.
//
//   readiness ◀── reconciler thread: the catalog, then the node. It repeats every 5 s until it succeeds. Then it waits
//                 until the mounts are visible outside, and registers with kubelet
//   services ──▶ rpc ──▶ VolumeCatalog ──▶ CatalogStore (state_dir/catalog.db), Pools, a Backend each
//                   ├──▶ SnapshotCatalog ─▶ SnapshotStore (the same file), Pools
//                   └──▶ NodeVolumes ────▶ NodeStore (state_dir/node.db), Mounter
//   metrics ───▶ PluginMetrics ──▶ all of these, with --metrics-listen
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "metrics/listener.h"
#include "mounter/mounter.h"
#include "plugin/config/config.h"
#include "plugin/process/resolver.h"

namespace mooring {

class PluginServer {
 public:
  // Parts of the process that main() makes.
  struct Outside {
    std::function<absl::Status()> helper_health;
    std::function<std::uint64_t()> helper_restarts;
    std::function<std::size_t()> helper_hanging;  // calls of the helper that hang in the kernel
    std::optional<metrics::Listener> metrics;     // bound before the process was confined; empty: no metrics
    Resolver* resolver = nullptr;                 // for pools that the plugin mounts itself
  };

  // Opens the stores, binds the socket and serves. Reconciles in the background. `config` comes from
  // PrepareDirectories. `mounter`, and the objects behind the functions of `outside`, must outlive the server.
  static absl::StatusOr<std::unique_ptr<PluginServer>> Start(const Config& config, Mounter& mounter, Outside outside);
  ~PluginServer();  // waits for all calls and threads, without a limit

  // Refuses new calls and calls that wait for others, and lets running calls end. DEADLINE_EXCEEDED names the calls and
  // tools that still run after `patience`: then end the process without destructors. Beside a silent file server that
  // is after 15 s. The next start or call finishes or undoes their work. A tool runs on alone and keeps its image
  // locked.
  absl::Status Stop(std::chrono::seconds patience);

 private:
  struct Parts;
  explicit PluginServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace mooring
