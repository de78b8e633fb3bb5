// The manager as a whole. main() gives it to the process, server.h to its sockets; README.md shows threads and owners.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "manager/attach/attachments.h"
#include "manager/claims/claims.h"
#include "manager/cluster.h"
#include "manager/config.h"
#include "manager/csi/connectors.h"
#include "manager/launch/launcher.h"
#include "manager/manager_metrics.h"
#include "manager/plugins/plugin_set.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/state/state.h"
#include "manager/supervisor/supervisor.h"
#include "manager/volumes/attachment_journal.h"
#include "manager/volumes/volume_manager.h"
#include "manager/volumes/volumes.h"
#include "manager/work/work_queue.h"
#include "mounter/mounter.h"

namespace mooring::manager {

// The objects of the manager, in the order of their dependence: each uses only objects above it. server.cc gives the
// servers those that they need; no object is handed the whole.
struct Components {
  // `shared_with_others`: null if no other host shares the state.
  Components(Config checked, std::string boot_id, std::unique_ptr<State> local_state,
             std::unique_ptr<State> shared_with_others);

  const Config config;
  const std::string boot;  // the kernel's boot id
  std::stop_source stop;
  std::unique_ptr<ManagerCounters> counters;  // null without --metrics-listen
  OpenChannels channels;
  std::unique_ptr<State> local;   // in SQLite
  std::unique_ptr<State> others;  // in etcd; null: the local state has all records
  State& shared;                  // the one of both that has the records of all hosts
  RecordsStore store{shared, *local};
  Events events{config.host};
  WorkQueue work;
  std::unique_ptr<Launcher> exec_launcher, container_launcher;
  std::unique_ptr<PluginSet> plugins;
  std::unique_ptr<Supervisor> supervisor;
  std::unique_ptr<Cluster> cluster;
  KeyedLocks controller_locks;
  std::unique_ptr<AttachmentJournal> journal;
  std::unique_ptr<VolumeManager> volume_manager;
  std::unique_ptr<Snapshots> snapshots;
  std::unique_ptr<Volumes> volumes;
  std::unique_ptr<Claims> claims;
  std::unique_ptr<Attachments> attachments;
  std::unique_ptr<MetricsPage> metrics;  // null without --metrics-listen
};

class Manager {
 public:
  // Opens the state, starts every component and restores the attachments of before. From then on it also frees claims
  // of allocations that are gone, and repeats calls that plugins still owe. `kernel` outlives the manager.
  static absl::StatusOr<std::unique_ptr<Manager>> Start(const Config& config, Mounts& kernel);
  ~Manager();  // Stop

  Components& components() { return *components_; }

  // Ends every wait with CANCELLED and starts no more calls to plugins. Calls that run may take config.stop_grace;
  // then their channels are closed. Returns at once.
  void BeginStop();

  // BeginStop, then waits until all threads have ended. Mounts and plugins stay.
  void Stop();

 private:
  explicit Manager(std::unique_ptr<Components> components);
  absl::Status Begin();
  void Restore(bool booted);
  void HealthChanged(const std::string& plugin, bool healthy, bool has_changed);
  void KeepHouseNow();
  absl::Status KeepHouse();
  void ReportUnreadable();
  void ReleaseUnused(const std::vector<Claim>& claims);
  absl::Status ReleaseUnused(const Claim& claim);
  void CloseChannelsLater();

  std::unique_ptr<Components> components_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool stopped_ = false;
  std::set<std::string> told_;  // why unused claims stay, and records cannot be read; used by KeepHouse only
  WorkKind health_, housekeeping_;
  std::thread closer_;  // closes the channels to plugins at the stop
};

}  // namespace mooring::manager
