// Starts an instance of a plugin, or finds one that an earlier manager started.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "manager/launch/instance_directory.h"
#include "manager/launch/wake_event.h"
#include "manager/supervisor/dependencies.h"
#include "manager/supervisor/supervised_instance.h"

namespace mooring::manager {

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

}  // namespace mooring::manager
