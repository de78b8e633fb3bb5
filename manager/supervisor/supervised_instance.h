// An instance of a plugin under supervision. It is a process or container that the manager runs, or an endpoint: a
// socket that somebody else serves.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/launch/instance_directory.h"
#include "manager/launch/launcher.h"
#include "manager/launch/wake_event.h"
#include "manager/plugins/plugin_set.h"
#include "manager/plugins/plugin_watch.h"
#include "manager/records/events.h"
#include "manager/records/records.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

// The settings and collaborators that all supervised plugins share.
struct SupervisorSettings {
  std::string host;
  std::string socket_root;  // each instance has a directory of its own below it: <socket_root>/<plugin>-<8 hex>
  std::string root;         // staging and target paths lie below it
  Clock::duration probe_interval = std::chrono::milliseconds(500);  // between Probes until the plugin is ready
  Clock::duration report_interval = std::chrono::seconds(30);       // between events that say why a start takes long
  PluginWatch::Settings watch;                                      // while the plugin serves
  Clock::duration sick_for = std::chrono::seconds(60);              // a plugin unhealthy for this long is restarted
  Clock::duration first_backoff = std::chrono::seconds(1);
  Clock::duration longest_backoff = std::chrono::seconds(60);
  Clock::duration end_time = std::chrono::seconds(30);   // from SIGTERM to SIGKILL
  Clock::duration end_again = std::chrono::seconds(10);  // between tries to end or to adopt an instance
};

// All members outlive the supervised plugins.
struct SupervisorDependencies {
  PluginSet& plugins;
  Events& events;
  CsiConnector connect;
  WorkQueue& work;
  Launcher& exec;
  Launcher& container;
  SupervisorSettings settings;
  // Called from the thread of a plugin with the services that it was found to have.
  std::function<void(const std::string& plugin, const std::vector<PluginType>& types)> on_types;
};

// The first calls to a plugin: they find out its name, its version and its services.
struct Handshake {
  std::string name, version;
  std::vector<PluginType> types;  // at least one
};

// FAILED_PRECONDITION: the plugin serves neither Node nor Controller. Errors name the call.
absl::StatusOr<Handshake> DoHandshake(CsiChannel& channel, Clock::time_point until);

// Names what is wanted of a plugin: a generation of its run, or an endpoint. An instance of an equal version need not
// be replaced.
std::string VersionOf(const PluginRecord& plugin);
std::string VersionOf(const InstanceDirectory& directory);

// Used by one thread at a time: that of its plugin, and later that of its termination.
class SupervisedInstance {
 public:
  SupervisedInstance(InstanceDirectory directory, std::unique_ptr<Launched> process);  // that runs in `directory`
  explicit SupervisedInstance(const PluginRecord& plugin);                             // an endpoint

  const std::string& id() const { return id_; }
  const std::string& version() const { return version_; }
  bool IsOurs() const { return process_ != nullptr; }  // the manager launches, restarts and ends it; not an endpoint
  const std::string& socket_path() const { return socket_path_; }
  std::string Handle() const;
  int ExitFd() const { return process_ ? process_->ExitFd() : -1; }

  bool IsAlive() { return !process_ || process_->IsAlive(); }
  std::string Describe() { return process_ ? process_->Describe() : ""; }

  // Registers the instance for each service it has. A new one becomes the newest of its plugin.
  absl::Status Register(PluginSet& plugins, const Handshake& handshake, const std::string& root) const;

  // Whether an instance of this id is registered, which then belongs to this object.
  bool TakeOver(PluginSet& plugins) const { return plugins.TakeOver(plugin_, id_, owner_); }

  // Does nothing if the instance belongs to another object by now.
  absl::Status Deregister(PluginSet& plugins) const { return plugins.Retire(plugin_, id_, owner_); }

  // Ends the process by `until` and removes its directory; does nothing for an endpoint. CANCELLED: as Launched::End.
  absl::Status End(Clock::time_point until, const std::stop_token& stop);

  // State that the plugin keeps of its instance.
  Clock::time_point since = Clock::now();
  Clock::time_point next_probe = Clock::now();  // while it starts
  Clock::time_point judged_at = {};             // the verdict of the watch that was considered last
  Clock::time_point ready_by = Clock::time_point::max();
  Clock::time_point report_at = Clock::time_point::max();
  std::optional<Clock::time_point> sick_since;
  std::string problem;  // why it is unhealthy; "" while it is healthy

 private:
  const InstanceOwner owner_;
  const std::string plugin_;
  const std::string id_;
  const std::string version_;
  const std::string socket_path_;
  const std::string provider_;
  const std::string directory_;  // empty for an endpoint
  const std::unique_ptr<Launched> process_;
};

// Adds an event about `plugin`; `instance` may be null.
void AddEvent(Events& events, const std::string& plugin, const char* kind, bool bad, const SupervisedInstance* instance,
              std::string text);

// The instance id of an endpoint: the same after every start of the manager.
std::string EndpointInstanceId(const PluginRecord& plugin);

using LaunchedInstance = absl::StatusOr<std::unique_ptr<SupervisedInstance>>;

// NOT_FOUND: the instance has ended. Other errors do not say whether it runs.
LaunchedInstance AdoptInstance(const SupervisorDependencies& deps, const InstanceDirectory& directory);

// A launch in a thread of its own, because an engine may pull an image for minutes and the plugin is watched meanwhile.
// Used by the thread of the plugin. The destructor waits for the launch.
class PendingLaunch {
 public:
  PendingLaunch(const SupervisorDependencies& deps, WakeEvent& wake) : deps_(deps), wake_(wake) {}

  // `stop` ends the launch. `wake` is woken when the launch is over.
  void Begin(const PluginRecord& wanted, const std::stop_token& stop);
  bool IsUnderWay() const { return launch_.valid(); }  // begun, and not taken yet
  bool IsOver() const { return over_; }
  LaunchedInstance Take() { return launch_.get(); }       // waits until it is over
  const PluginRecord& wanted() const { return wanted_; }  // of the last launch

 private:
  const SupervisorDependencies& deps_;
  WakeEvent& wake_;
  PluginRecord wanted_;
  std::atomic<bool> over_ = false;
  std::future<LaunchedInstance> launch_;
};

// "12 s"; a negative duration is "0 s".
inline std::string Seconds(Clock::duration time) {
  return fmt::format("{} s", std::max<std::int64_t>(0, std::chrono::round<std::chrono::seconds>(time).count()));
}

}  // namespace mooring::manager
