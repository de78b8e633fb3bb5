// Runs plugins: starts, watches, restarts, replaces, stops. (j) A thread for each plugin.
//
//          ┌────────── back-off 1 s → 60 s ◀──────────┐
//          ▼                                          │ died, or unhealthy for too long
//   launching ──▶ starting (Probe every 0.5 s) ──▶ serving (registered) ──▶ stopping: deregister, end the process
//                       │ start deadline passed        │ new generation: another instance beside it, on its own
//                       └──▶ back-off                  ▼ socket; healthy and registered, only then is this one ended
//
// The process of a plugin outlives the manager: each instance has a directory that tells of it
// (instance_directory.h), and a manager started anew adopts it. Endpoints that somebody else serves are probed and
// registered likewise, but never started or ended.
#ifndef MOORING_MANAGER_SUPERVISOR_SUPERVISOR_H_
#define MOORING_MANAGER_SUPERVISOR_SUPERVISOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/launch/launcher.h"
#include "manager/plugins/registry.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/supervisor/supervised_plugin.h"

namespace mooring::manager {

class Supervisor {
 public:
  using Settings = SupervisorSettings;

  // All outlive it. `exec` and `container` launch the two kinds.
  Supervisor(RecordsStore& store, Registry& registry, Events& events, CsiConnector connect, Launcher& exec,
             Launcher& container, Settings settings);
  ~Supervisor();  // leaves the plugins running

  // Adopts or starts what is declared, and registers endpoints that somebody else serves. What an earlier manager left
  // of others is ended, in the background.
  absl::Status Start();

  // (j) 1: stored, then started beside what runs under that name already (a new generation); returns at once unless
  // `wait`: then when it is registered, or with why it is not: when the first try has failed (UNAVAILABLE; it is tried
  // again), or at `until`. The same run again: nothing happens, but for one in back-off, which is tried now.
  absl::Status Run(const std::string& name, const PluginRecord::Run& run, const std::string& declared_by, bool wait,
                   Clock::time_point until);

  // One that somebody else runs. `name` empty: what GetPluginInfo says. Gives the name. Asked at once; not there yet is
  // OK with `wait` false and a name.
  absl::StatusOr<std::string> RegisterEndpoint(const std::string& name, const std::string& socket_path,
                                               const std::string& declared_by, bool wait, Clock::time_point until);

  // Deregistered first, then ended; mounts stay. (j) 4. `declared_by` empty: whoever declared it. With others still
  // declaring it: only this one is taken off, and it runs on. NOT_FOUND: not declared, or not by this one. What cannot
  // be ended is the error: it is tried again in the background, and at once where this is called again.
  absl::Status Stop(const std::string& name, const std::string& declared_by, Clock::time_point until);

  std::vector<PluginRecord> Declared() const;

  // What a plugin does now, for its status: "starting for 12 s: …", "restarted 3 times; next try in 8 s: …".
  std::string Words(const std::string& name) const;

  std::map<std::string, std::uint64_t> Restarts() const;  // of those that the manager runs, since its start

  void BeginShutdown();  // what waits for a plugin gets CANCELLED
  void Shutdown();       // its threads end; the plugins do not

 private:
  struct Entry {
    PluginRecord record;
    std::shared_ptr<SupervisedPlugin> plugin;
  };
  using Entries = std::map<std::string, Entry>;
  using LeftByPlugin = std::map<std::string, std::vector<InstanceDirectory>>;

  absl::Status DeregisterWhatIsGone(const LeftByPlugin& left, const std::vector<PluginRecord>& records);
  // Stores `record`, with `declared_by` added, and has it supervised. Under mutex_.
  absl::StatusOr<std::shared_ptr<SupervisedPlugin>> Declare(PluginRecord record, const std::string& declared_by);
  absl::Status Store(PluginRecord& record);  // under mutex_
  // Gives the plugin that is to be ended; null where others declare it still. Under mutex_.
  absl::StatusOr<std::shared_ptr<SupervisedPlugin>> Undeclare(Entries::iterator found, const std::string& declared_by);
  std::shared_ptr<SupervisedPlugin> FindEnding(const std::string& name);  // under mutex_; null: none
  void KeepTypes(const std::string& name, const std::vector<PluginType>& types);
  std::vector<std::shared_ptr<SupervisedPlugin>> Close();  // gives all there are
  void EndStrays(const std::set<std::string>& engines, const std::stop_token& stop);
  absl::StatusOr<std::string> AskName(const std::string& socket_path, Clock::time_point until) const;

  RecordsStore& store_;
  Registry& registry_;
  Events& events_;
  const Surroundings around_;

  mutable std::mutex mutex_;  // of the records and of which plugins there are; no plugin is waited for under it
  Entries entries_;
  // Stopped, and what an earlier manager left of plugins not declared: until nothing is left of them.
  std::vector<std::shared_ptr<SupervisedPlugin>> ending_;
  bool closed_ = false;
  std::jthread sweeper_;  // of what was left in container engines, once at the start
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_SUPERVISOR_H_
