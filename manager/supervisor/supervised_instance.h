// An instance of a plugin under supervision. It is a process or container that the manager runs, or an endpoint: a
// socket that somebody else serves.
#pragma once

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
#include "manager/plugins/plugin_set.h"
#include "manager/records/events.h"
#include "manager/supervisor/handshake.h"

namespace mooring::manager {

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

}  // namespace mooring::manager
