// One instance under supervision: the process with its socket, or a socket that somebody else serves.
#ifndef MOORING_MANAGER_SUPERVISOR_SUPERVISED_INSTANCE_H_
#define MOORING_MANAGER_SUPERVISOR_SUPERVISED_INSTANCE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/launch/instance_directory.h"
#include "manager/launch/launcher.h"
#include "manager/plugins/registry.h"
#include "manager/records/events.h"
#include "manager/supervisor/introduction.h"

namespace mooring::manager {

// What of a plugin is wanted: a generation of its run, or an endpoint. Equal: nothing has to be done.
std::string VersionOf(const PluginRecord& plugin);
std::string VersionOf(const InstanceDirectory& directory);

// Used by one thread at a time: its plugin's, and in the end that of its end.
class SupervisedInstance {
 public:
  // `process` runs in `directory`.
  SupervisedInstance(InstanceDirectory directory, std::unique_ptr<Launched> process,
                     std::shared_ptr<CsiChannel> channel);
  // What somebody else serves.
  SupervisedInstance(const PluginRecord& plugin, std::shared_ptr<CsiChannel> channel);

  const std::string& id() const { return id_; }
  const std::string& version() const { return version_; }
  bool IsOurs() const { return process_ != nullptr; }  // it is launched, restarted and ended here
  CsiChannel& channel() { return *channel_; }
  std::string Handle() const;
  int ExitFd() const { return process_ ? process_->ExitFd() : -1; }

  bool IsAlive() { return !process_ || process_->IsAlive(); }
  std::string Words() { return process_ ? process_->Words() : ""; }

  // In the registry, as each type it serves; to the front where it is new there.
  absl::Status Register(Registry& registry, const Introduction& introduction, const std::string& root);
  bool IsRegistered(const Registry& registry) const;
  absl::Status Deregister(Registry& registry) const;

  // The process with its directory; of an endpoint, nothing.
  absl::Status End(const EndDeadline& deadline);

  // What its plugin keeps of it.
  Clock::time_point since = Clock::now();
  Clock::time_point next_look = Clock::now();
  Clock::time_point ready_by = Clock::time_point::max();
  Clock::time_point tell_at = Clock::time_point::max();
  std::optional<Clock::time_point> sick_since;
  std::string sick_words;

 private:
  const std::string plugin_;
  const std::string id_;
  const std::string version_;
  const std::string socket_path_;
  const std::string provider_;
  const std::string directory_;  // empty: not ours
  const std::unique_ptr<Launched> process_;
  const std::shared_ptr<CsiChannel> channel_;
};

// An event of `plugin`; `instance` may be null.
void Tell(Events& events, const std::string& plugin, const char* kind, bool bad, const SupervisedInstance* instance,
          std::string text);

// Out of the registry, as each type it is there.
absl::Status DeregisterInstance(Registry& registry, const std::string& plugin, const std::string& id);

// Of an endpoint: the same after every start of the manager.
std::string EndpointInstanceId(const PluginRecord& plugin);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_SUPERVISED_INSTANCE_H_
