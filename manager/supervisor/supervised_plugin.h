// A plugin under supervision: a thread that starts, watches, registers, restarts and replaces its instances.
// supervisor.h draws the states.
//
//   other threads ── Want, Terminate, Stop ──▶ SupervisionState ──▶ the thread: PluginWorker ──▶ instances
//                ◀── WaitUntilServing, StatusText ──┘
#ifndef MOORING_MANAGER_SUPERVISOR_SUPERVISED_PLUGIN_H_
#define MOORING_MANAGER_SUPERVISOR_SUPERVISED_PLUGIN_H_

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "manager/launch/instance_directory.h"
#include "manager/launch/wake_event.h"
#include "manager/supervisor/dependencies.h"
#include "manager/supervisor/supervision_state.h"
#include "manager/supervisor/terminator.h"

namespace mooring::manager {

class SupervisedPlugin {
 public:
  // `left`: directories of the instances that an earlier manager launched. Each instance is adopted or ended; all are
  // ended where `wanted` has neither a run nor an endpoint.
  SupervisedPlugin(const SupervisorDependencies& deps, const PluginRecord& wanted, std::vector<InstanceDirectory> left);
  ~SupervisedPlugin();  // Stop

  void Want(const PluginRecord& record);  // the same record again: a plugin in back-off is tried now

  // Waits until the wanted version is registered and answers. UNAVAILABLE: the first try to start it failed, with the
  // reason; further tries follow. DEADLINE_EXCEEDED: `until` has passed.
  absl::Status WaitUntilServing(Clock::time_point until) { return state_.WaitUntilServing(until); }

  // Deregisters and ends all instances by `until` and removes their directories; then the thread ends. An instance that
  // cannot be ended is the error: the thread tries it again in the background, and at once when this is called again.
  // An end that is under way already gets at most until `until`. UNAVAILABLE: the manager is stopping, and the next
  // manager ends the rest.
  absl::Status Terminate(Clock::time_point until);

  void BeginStop();  // asks the thread to end; the processes run on
  void Stop();       // the same, and waits for the thread

  const std::string& name() const { return name_; }
  const SupervisionState& state() const { return state_; }

 private:
  void EndSupervision();

  const std::string name_;
  SupervisionState state_;
  WakeEvent wake_;
  Terminator terminator_;
  std::mutex join_mutex_;
  std::jthread thread_;  // its stop ends the supervision
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_SUPERVISED_PLUGIN_H_
