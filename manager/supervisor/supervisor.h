// Runs plugins: starts, watches, restarts, replaces and stops them. Each plugin has a thread of the WorkQueue.
//
//          ┌────────── back-off 1 s → 60 s ◀──────────┐
//          ▼                                          │ died, or unhealthy for too long
//   launching ──▶ starting (Probe every 0.5 s) ──▶ serving (registered) ──▶ stopping: deregister, end the process
//                       │ start deadline passed        │ new generation: another instance starts beside it, on a
//                       └──▶ back-off                  ▼ socket of its own; once registered, it replaces this one
//
// The process of a plugin outlives the manager. Each instance has a directory that describes it (instance_directory.h),
// so that the next manager adopts it. An endpoint, which somebody else serves, is probed and registered in the same
// way, but never started or ended.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/launch/launcher.h"
#include "manager/plugins/plugin_set.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/supervisor/supervised_plugin.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

class Supervisor {
 public:
  using Settings = SupervisorSettings;

  // All references outlive the supervisor. `exec` and `container` launch the two kinds of run.
  Supervisor(RecordsStore& store, PluginSet& plugins, Events& events, CsiConnector connect, WorkQueue& work,
             Launcher& exec, Launcher& container, Settings settings);
  ~Supervisor();  // the plugins run on

  // Adopts or starts the declared plugins, and registers the endpoints. In the background, ends instances that an
  // earlier manager left of plugins that are not declared.
  absl::Status Start();

  // Stores the declaration, then starts the plugin. If an instance runs under that name already, a new generation is
  // started beside it. The same run again changes nothing, but a plugin in back-off is tried now. With `wait`, returns
  // once the plugin is registered. UNAVAILABLE: the first try failed; further tries follow. DEADLINE_EXCEEDED: `until`
  // has passed.
  absl::Status RunPlugin(const std::string& name, const PluginRecord::Run& run, const std::string& declared_by,
                         bool wait, Clock::time_point until);

  // Declares a plugin that somebody else runs, and gives its name. An empty `name` is read from the plugin with
  // GetPluginInfo, so the plugin has to answer now. With a name and without `wait` it need not run yet.
  absl::StatusOr<std::string> RegisterEndpoint(const std::string& name, const std::string& socket_path,
                                               const std::string& declared_by, bool wait, Clock::time_point until);

  // Takes `declared_by` off the declaration. The last one gone, the plugin is deregistered, then ended; its mounts
  // stay. An empty `declared_by` takes all off. NOT_FOUND: the plugin is not declared, or not by this one. An instance
  // that cannot be ended is the error: it is tried again in the background, and at once when this is called again.
  absl::Status StopPlugin(const std::string& name, const std::string& declared_by, Clock::time_point until);

  std::vector<PluginRecord> Declared() const;

  // The state of a plugin for its users: "starting for 12 s: …", "restarted 3 times; next try in 8 s: …".
  std::string StatusText(const std::string& name) const;

  std::map<std::string, std::uint64_t> Restarts() const;  // of the plugins that the manager runs, since its start

  void BeginStop();  // calls that wait for a plugin get CANCELLED
  void Stop();       // the same, and waits for the threads; the plugins run on

 private:
  struct Entry {
    PluginRecord record;
    std::shared_ptr<SupervisedPlugin> plugin;
  };
  using Entries = std::map<std::string, Entry>;
  using LeftByPlugin = std::map<std::string, std::vector<InstanceDirectory>>;

  bool IsDamaged(const std::string& plugin) const;  // its record cannot be read
  absl::Status DeregisterMissing(const LeftByPlugin& left, const std::vector<PluginRecord>& records);
  // Stores `record`, with `declared_by` added, and begins to supervise it. Under mutex_.
  absl::StatusOr<std::shared_ptr<SupervisedPlugin>> Declare(PluginRecord record, const std::string& declared_by);
  absl::Status Store(PluginRecord& record);  // under mutex_
  // Gives the plugin that has to be ended; null where others still declare it. Under mutex_.
  absl::StatusOr<std::shared_ptr<SupervisedPlugin>> Undeclare(Entries::iterator found, const std::string& declared_by);
  std::shared_ptr<SupervisedPlugin> FindTerminating(const std::string& name);  // under mutex_; may be null
  void KeepTypes(const std::string& name, const std::vector<PluginType>& types);
  std::vector<std::shared_ptr<SupervisedPlugin>> Close();  // gives all plugins
  void EndStrays(const std::string& engine);
  absl::StatusOr<std::string> AskName(const std::string& socket_path, Clock::time_point until) const;

  RecordsStore& store_;
  PluginSet& plugins_;
  Events& events_;
  const SupervisorDependencies deps_;

  mutable std::mutex mutex_;  // guards the members below; nobody waits for a plugin under it
  Entries entries_;
  // Plugins that are no longer declared, until all their instances have ended.
  std::vector<std::shared_ptr<SupervisedPlugin>> terminating_;
  bool closed_ = false;
  std::stop_source stop_;
  WorkKind sweeps_;  // of engines: remove, once at the start, the containers that were left there
};

}  // namespace mooring::manager
