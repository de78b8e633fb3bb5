// The plugin as a whole: its state, its volumes, its services on a socket. main() wires it to the process.
//
//   readiness ◀── reconciler thread (catalog, then node), again every few seconds until it succeeds; then, as long as
//                 something is missing around the plugin, until kubelet may be told of it
//   services ──▶ rpc ──▶ VolumeCatalog ──▶ CatalogStore (state_dir/catalog.db), Pools, a Backend each
//                   ├──▶ SnapshotCatalog ─▶ SnapshotStore (the same file), Pools
//                   └──▶ NodeVolumes ────▶ NodeStore (state_dir/node.db), Mounter
//   metrics ───▶ PluginMetrics ──▶ all of those, where --metrics-listen is given
#ifndef MOORING_PLUGIN_PROCESS_SERVER_H_
#define MOORING_PLUGIN_PROCESS_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "metrics/listener.h"
#include "mounter/mounter.h"
#include "plugin/process/config.h"

namespace mooring {

class PluginServer {
 public:
  // What the process has beside the mounter.
  struct Outside {
    std::function<absl::Status()> helper_health;
    std::function<std::uint64_t()> helper_restarts;
    std::function<std::size_t()> helper_hanging;  // calls of it that hang in the kernel
    std::optional<metrics::Listener> metrics;     // bound before the process was confined; none: there are no metrics
  };

  // Opens the state, binds the socket and serves; reconciles in the background. `config.state_dir` is there
  // (plugin/process/state_dir.h). `mounter`, and what `outside` asks, must outlive it.
  static absl::StatusOr<std::unique_ptr<PluginServer>> Start(const Config& config, Mounter& mounter, Outside outside);
  ~PluginServer();  // waits for what is left, however long that takes

  // Takes no new calls, refuses those that wait for others, and lets those at work end. DEADLINE_EXCEEDED names the
  // calls and tools that are at it still after `patience`: end the process then, as a kill would. What a call had
  // begun is finished or taken back at the next start or call; a tool goes on alone and keeps its image locked.
  absl::Status Stop(std::chrono::seconds patience);

 private:
  struct Parts;
  explicit PluginServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_SERVER_H_
