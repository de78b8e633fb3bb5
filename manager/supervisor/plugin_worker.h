// The work of a supervised plugin's thread: rounds while the plugin is wanted, then its termination.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/launch/instance_directory.h"
#include "manager/launch/wake_event.h"
#include "manager/plugins/plugin_watch.h"
#include "manager/supervisor/supervised_instance.h"
#include "manager/supervisor/supervised_plugin.h"
#include "manager/supervisor/terminator.h"

namespace mooring::manager {

// The instances of a plugin that an earlier manager launched, until this one has adopted them or knows that they ended.

// Used by the thread of the plugin.
class LeftInstances {
 public:
  LeftInstances(const SupervisorDependencies& deps, std::string plugin, std::vector<InstanceDirectory> directories)
      : deps_(deps), plugin_(std::move(plugin)), directories_(std::move(directories)) {}

  // Gives the instances that run, those of `version` first, and forgets those that have ended. An instance whose state
  // cannot be read may run, so it is neither forgotten nor replaced. It stays for the next call.
  std::vector<std::unique_ptr<SupervisedInstance>> Adopt(const std::string& version);

  bool IsEmpty() const { return directories_.empty(); }
  const absl::Status& problem() const { return problem_; }  // why the last Adopt left an instance
  Clock::time_point again_at() const { return again_at_; }  // the time of the next Adopt

 private:
  absl::StatusOr<std::unique_ptr<SupervisedInstance>> AdoptOne(const InstanceDirectory& directory);

  const SupervisorDependencies& deps_;
  const std::string plugin_;
  std::vector<InstanceDirectory> directories_;
  absl::Status problem_;
  Clock::time_point again_at_ = Clock::time_point::max();
};

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
