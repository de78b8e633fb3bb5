// The manager as a whole. main() wires it to the process, server.h to its sockets; README.md draws threads and owners.
#ifndef MOORING_MANAGER_MANAGER_H_
#define MOORING_MANAGER_MANAGER_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "manager/attach/attachments.h"
#include "manager/attach/work_lanes.h"
#include "manager/claims/claims.h"
#include "manager/config.h"
#include "manager/csi/open_channels.h"
#include "manager/launch/launcher.h"
#include "manager/manager_metrics.h"
#include "manager/plugins/plugin_loop.h"
#include "manager/plugins/registry.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/state/state.h"
#include "manager/supervisor/supervisor.h"
#include "manager/volumes/mount_journal.h"
#include "manager/volumes/volume_manager.h"
#include "manager/volumes/volumes.h"
#include "mounter/mounter.h"

namespace mooring::manager {

// In the order of their dependence: what stands below uses what stands above and goes first.
struct Parts {
  Parts(Config checked, std::unique_ptr<State> opened);

  Config config;
  std::string boot;  // that this one serves in, see docker/boot.h
  std::stop_source stop;
  std::unique_ptr<ManagerMetrics> metrics;  // null: nobody has asked for them
  OpenChannels channels;
  std::unique_ptr<State> state;
  RecordsStore store{*state};
  Events events;
  std::unique_ptr<Registry> registry;
  std::unique_ptr<Launcher> exec_launcher, container_launcher;
  std::unique_ptr<Supervisor> supervisor;
  std::unique_ptr<PluginLoop> plugins;
  KeyedLocks controller_locks;
  std::unique_ptr<MountJournal> journal;
  std::unique_ptr<VolumeManager> volume_manager;
  std::unique_ptr<Volumes> volumes;
  std::unique_ptr<Claims> claims;
  std::unique_ptr<Attachments> attachments;
};

// Opens the state, starts everything, restores what was attached, and keeps house (collects past claims, sends what is
// owed). `kernel` outlives it.
class Manager {
 public:
  static absl::StatusOr<std::unique_ptr<Manager>> Start(const Config& config, Mounts& kernel);
  ~Manager();  // Stop

  Parts& parts() { return *parts_; }

  // Everything that waits ends, CANCELLED, and no plugin is called any more. Calls to plugins that are under way may
  // end by themselves for config.stop_grace; then they are cut short. Returns at once.
  void BeginStop();

  // That, and waits for its end. Mounts and plugins stay as they are.
  void Stop();

 private:
  explicit Manager(std::unique_ptr<Parts> parts);
  absl::Status Begin();
  void FollowHealth();
  void KeepHouse();
  void CloseChannelsLater();

  std::unique_ptr<Parts> parts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool stopped_ = false;
  std::map<std::string, PluginHealth> news_;  // of plugins, by name
  std::thread resumer_;                       // of volumes that were half made or half deleted before the start
  std::thread follower_;                      // of plugins' health
  WorkLanes owed_{1};                         // to plugins that are back: a lane each
  std::thread housekeeper_;
  std::thread closer_;  // of channels to plugins, at the stop
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_MANAGER_H_
