// One plugin under supervision: a thread that starts, probes, registers, restarts and replaces its instances.
// supervisor.h draws the states.
//
//   other threads ── Want, Terminate, Stop ──▶ wanted_, under the mutex ──▶ the thread ──▶ serving_, starting_
//                ◀── WaitUntilServing, StatusText ── status_, under the mutex ──┘
#ifndef MOORING_MANAGER_SUPERVISOR_SUPERVISED_PLUGIN_H_
#define MOORING_MANAGER_SUPERVISOR_SUPERVISED_PLUGIN_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "manager/launch/instance_directory.h"
#include "manager/launch/wake_event.h"
#include "manager/supervisor/dependencies.h"
#include "manager/supervisor/supervised_instance.h"
#include "manager/supervisor/terminator.h"

namespace mooring::manager {

class SupervisedPlugin {
 public:
  // `left`: directories of the instances that an earlier manager launched. Each instance is adopted or ended; all are
  // ended where `wanted` has neither a run nor an endpoint.
  SupervisedPlugin(const SupervisorDependencies& deps, PluginRecord wanted, std::vector<InstanceDirectory> left);
  ~SupervisedPlugin();  // Stop

  void Want(const PluginRecord& record);  // the same record again: a plugin in back-off is tried now

  // Waits until the wanted version is registered and answers. UNAVAILABLE: the first try to start it failed, with the
  // reason; further tries follow. DEADLINE_EXCEEDED: `until` has passed.
  absl::Status WaitUntilServing(Clock::time_point until);

  // Deregisters and ends all instances by `until` and removes their directories; then the thread ends. An instance that
  // cannot be ended is the error: the thread tries it again in the background, and at once when this is called again.
  // An end that is under way already gets at most until `until`. UNAVAILABLE: the manager is stopping, and the next
  // manager ends the rest.
  absl::Status Terminate(Clock::time_point until);

  void BeginStop();  // asks the thread to end; the processes run on
  void Stop();       // the same, and waits for the thread

  std::string StatusText() const;
  std::uint64_t restarts() const;  // of all versions
  const std::string& name() const { return name_; }
  bool IsOver() const;             // the thread has nothing more to do
  bool FailedToTerminate() const;  // Terminate has failed, and the thread tries again

 private:
  enum class Goal { kSupervise, kStop, kTerminate };
  struct Status {
    std::string serving, handle;  // version and handle of the instance that serves; empty: none does
    std::optional<Clock::time_point> starting_since;
    std::optional<Clock::time_point> next_try;
    std::string failed;   // the version that could not be started, or that ended
    std::string problem;  // the last error; "": none
    int restarts = 0;
  };

  // supervised_plugin.cc
  Goal goal() const;
  PluginRecord ReadWanted();
  void SetGoal(Goal goal);
  void Join();

  // supervised_work.cc: the thread.
  void Work();
  void DoRound();
  Clock::time_point NextRound() const;
  bool MayBegin(const PluginRecord& wanted);
  void RefuseToBegin(const PluginRecord& wanted, const std::string& problem);
  void Begin(const PluginRecord& wanted);
  absl::StatusOr<std::unique_ptr<SupervisedInstance>> Launch(const PluginRecord& wanted);
  std::shared_ptr<CsiChannel> Connect(const std::string& socket_path);  // SetGoal closes the channel
  absl::StatusOr<Handshake> ProbeAndHandshake(SupervisedInstance& instance);
  void CheckStarting();
  void Promote(const Handshake& handshake);
  void CheckServing();
  void NoteHealth(const absl::Status& probed);
  void GiveUpServing(const std::string& why);
  void FailStarting(const std::string& problem);
  void BackOff(const std::string& version, const std::string& problem);
  LaunchSpec SpecOf(const InstanceDirectory& directory, const PluginRecord::Run& run) const;
  Launcher& LauncherOf(PluginRecord::Run::Kind kind) const;
  void UpdateStatus();  // from serving_ and starting_

  // supervised_adopt.cc: instances that an earlier manager left.
  void Adopt();
  void AdoptLeft(const PluginRecord& wanted);
  bool AdoptOne(const InstanceDirectory& directory, const PluginRecord& wanted);  // false: try again later
  bool LeaveForLater(const absl::Status& why);
  void AdoptEndpoint(const PluginRecord& wanted);

  // supervised_terminate.cc
  void WorkOnTermination();
  bool AwaitNextTry();  // false: the manager is stopping

  const SupervisorDependencies& deps_;
  const SupervisorSettings& settings_;
  const std::string name_;

  mutable std::mutex mutex_;  // guards the members up to channels_
  std::condition_variable changed_;
  PluginRecord wanted_;
  bool hurry_ = false;  // a caller asked for a try now, without back-off
  Goal goal_ = Goal::kSupervise;
  Status status_;
  std::uint64_t restarts_ = 0;
  bool stopping_ = false;
  bool over_ = false;
  int tries_to_terminate_ = 0;
  absl::Status terminated_;                          // the outcome of the last of these tries
  std::vector<std::weak_ptr<CsiChannel>> channels_;  // closed by SetGoal, because the thread may be in a call

  std::stop_source stop_;  // stopped by SetGoal: ends a launch that is under way

  // Only the thread uses the members from here to terminator_.
  std::vector<InstanceDirectory> left_;  // could not be adopted yet; tried again at adopt_again_at_
  absl::Status left_problem_;
  Clock::time_point adopt_again_at_ = Clock::time_point::max();
  std::unique_ptr<SupervisedInstance> serving_, starting_;
  std::string tried_version_;  // backoff_ and next_try_ belong to this version
  Clock::duration backoff_;
  Clock::time_point next_try_ = Clock::now();
  bool waits_for_end_ = false;  // no instance is started before the others have ended
  WakeEvent wake_;
  Terminator terminator_;

  std::mutex join_mutex_;
  std::thread thread_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_SUPERVISED_PLUGIN_H_
