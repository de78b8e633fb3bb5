// Runs plugins: starts, watches, restarts, replaces, stops. (j) A thread for each plugin.
//
//          ┌────────── back-off 1 s → 60 s ◀──────────┐
//          ▼                                          │ died, or unhealthy for too long
//   launching ──▶ starting (Probe every 0.5 s) ──▶ serving (registered) ──▶ stopping: deregister, end the process
//                       │ start deadline passed        │ new generation: another instance beside it, on its own
//                       └──▶ back-off                  ▼ socket; healthy and registered, only then is this one ended
//
// The process of a plugin outlives the manager: which instance runs where is stored, and a manager started anew adopts
// it.
#ifndef MOORING_MANAGER_SUPERVISOR_SUPERVISOR_H_
#define MOORING_MANAGER_SUPERVISOR_SUPERVISOR_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/events.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/plugins/registry.h"
#include "manager/state/records_store.h"
#include "manager/supervisor/launcher.h"

namespace mooring::manager {

class Supervisor {
 public:
  struct Settings {
    std::string host;
    std::string socket_root;  // a directory for each instance is made below it: <socket_root>/<plugin>-<8 hex>
    std::string root;         // of staging and target paths
    Clock::duration probe_interval = std::chrono::milliseconds(500);  // until it is ready
    Clock::duration tell_interval = std::chrono::seconds(30);         // an event that says what is waited for
    Clock::duration watch_interval = std::chrono::seconds(5);         // Probe while it serves
    Clock::duration sick_for = std::chrono::seconds(60);              // unhealthy so long: restarted
    Clock::duration first_backoff = std::chrono::seconds(1);
    Clock::duration longest_backoff = std::chrono::seconds(60);
    Clock::duration end_time = std::chrono::seconds(30);  // SIGTERM to SIGKILL
  };

  // All outlive it. `exec` and `container` launch the two kinds.
  Supervisor(RecordsStore& store, Registry& registry, Events& events, CsiConnector connect, Launcher& exec,
             Launcher& container, Settings settings);
  ~Supervisor();  // leaves the plugins running

  // Adopts or starts what is declared, and registers endpoints that somebody else serves.
  absl::Status Start();

  // (j) 1: stored, then started beside what runs under that name already (a new generation); returns at once unless
  // `wait`: then when it is registered, or with why it is not at `until`. The same run again: nothing happens.
  absl::Status Run(const std::string& name, const PluginRecord::Run& run, const std::string& declared_by, bool wait,
                   Clock::time_point until);

  // One that somebody else runs. `name` empty: what GetPluginInfo says. Gives the name. Asked at once; not there yet is
  // OK with `wait` false.
  absl::StatusOr<std::string> RegisterEndpoint(const std::string& name, const std::string& socket_path,
                                               const std::string& declared_by, bool wait, Clock::time_point until);

  // Deregistered first, then ended; mounts stay. (j) 4. `declared_by` empty: whoever declared it. With others still
  // declaring it: only this one is taken off, and it runs on.
  absl::Status Stop(const std::string& name, const std::string& declared_by, Clock::time_point until);

  std::vector<PluginRecord> Declared() const;

  // What a plugin does now, for its status: "starting for 12 s: …", "restarted 3 times, next try in 8 s".
  std::string Words(const std::string& name) const;

  void Shutdown();  // its threads end; the plugins do not

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_SUPERVISOR_H_
