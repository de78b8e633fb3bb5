// The work of a supervised plugin's thread: rounds while the plugin is wanted, then its termination.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/back_off.h"
#include "manager/launch/wake_event.h"
#include "manager/plugins/plugin_watch.h"
#include "manager/supervisor/dependencies.h"
#include "manager/supervisor/handshake.h"
#include "manager/supervisor/instance_launch.h"
#include "manager/supervisor/left_instances.h"
#include "manager/supervisor/supervised_instance.h"
#include "manager/supervisor/supervised_plugin.h"
#include "manager/supervisor/terminator.h"

namespace mooring::manager {

class PluginWorker {
 public:
  // `stop` ends the supervision and the call under way. The references outlive the worker.
  PluginWorker(const SupervisorDependencies& deps, SupervisedPlugin& plugin, Terminator& terminator, WakeEvent& wake,
               std::vector<InstanceDirectory> left, std::stop_token stop);

  // Returns when `stop` was requested, and, if the plugin is to be terminated, when nothing of it is left.
  void Run();

 private:
  bool IsWanted() const { return !stop_.stop_requested() && !plugin_.IsTerminating(); }

  // The rounds.
  void DoRound();
  void Wait();
  void AdoptLeft(const PluginRecord& wanted);
  void Place(std::unique_ptr<SupervisedInstance> adopted, const PluginRecord& wanted);
  void BeginIfDue(const PluginRecord& wanted);
  bool MayBegin(const PluginRecord& wanted);
  void RefuseToBegin(const std::string& problem);
  void TakeLaunched();
  void CheckStarting();
  void Promote(const Handshake& handshake);
  void FailStarting(const std::string& problem);
  void WatchServing();
  absl::Status HandshakeAgain();
  void GiveUpServing(const std::string& why);
  void NoteFailure(const std::string& version, const std::string& problem);
  absl::StatusOr<Handshake> ProbeAndHandshake(const SupervisedInstance& instance);
  void UpdateStatus();

  void Terminate();
  bool AwaitNextTermination();  // false: the manager is stopping

  const SupervisorDependencies& deps_;
  const SupervisorSettings& settings_;
  SupervisedPlugin& plugin_;
  const std::string& name_;
  Terminator& terminator_;
  WakeEvent& wake_;
  const std::stop_token stop_;

  LeftInstances left_;
  PluginWatch watch_;
  PendingLaunch launch_;
  std::unique_ptr<SupervisedInstance> serving_, starting_;
  std::string version_;  // that is wanted; the back-off belongs to it
  BackOff back_off_;
  bool waits_for_end_ = false;  // no instance is started before the others have ended
};

}  // namespace mooring::manager
