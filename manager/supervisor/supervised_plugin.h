// One plugin under supervision: a thread that starts, probes, registers, restarts and replaces its instances.
// supervisor.h draws the states.
//
//   others' threads ── Want, Stop, Leave ──▶ wanted, under the mutex ──▶ the thread ──▶ serving, starting: its own
//                   ◀── WaitUntilServing, Words ── status, under the mutex ──┘
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
#include "manager/launch/waker.h"
#include "manager/supervisor/endings.h"
#include "manager/supervisor/supervised_instance.h"
#include "manager/supervisor/surroundings.h"

namespace mooring::manager {

class SupervisedPlugin {
 public:
  // `left`: directories of its instances that an earlier manager launched. They are adopted, or cleared away. A
  // `wanted` without run and endpoint: they are only ended.
  SupervisedPlugin(const Surroundings& around, PluginRecord wanted, std::vector<InstanceDirectory> left);
  ~SupervisedPlugin();  // Leave

  void Want(const PluginRecord& record);  // the same again: what is in back-off is tried now

  // What is wanted now is registered and answers. UNAVAILABLE: the first try to start it has failed, with what it said
  // (further ones follow); DEADLINE_EXCEEDED: `until` is over.
  absl::Status WaitUntilServing(Clock::time_point until);

  // Deregistered, ended by `until`, directories removed; then the thread is over. What cannot be ended is the error,
  // and is tried again in the background; called again, it is tried at once. What is being ended already has until
  // `until` at most. UNAVAILABLE: the manager is stopping, and what has not ended yet is left to the next one.
  absl::Status End(Clock::time_point until);
  void Leave();       // the thread ends, the processes do not
  void BeginLeave();  // without waiting for it

  std::string Words() const;
  std::uint64_t restarts() const;  // of all versions
  const std::string& name() const { return name_; }
  bool IsOver() const;           // the thread has nothing more to do
  bool CouldNotBeEnded() const;  // End has failed, and is tried again

 private:
  enum class Goal { kSupervise, kLeave, kEnd };
  struct Status {
    std::string serving, handle;  // version and handle; empty: none serves
    std::optional<Clock::time_point> starting_since;
    std::optional<Clock::time_point> next_try;
    std::string failed;  // the version that could not be started, or came to an end
    std::string words;   // what was said last where not all is well
    int restarts = 0;
  };

  // supervised_plugin.cc
  Goal goal() const;
  PluginRecord TakeWanted();
  void Reach(Goal goal);
  void Join();

  // supervised_work.cc: the thread.
  void Work();
  void Attend();
  Clock::time_point NextLook() const;
  bool MayBegin(const PluginRecord& wanted);
  void NotBegun(const PluginRecord& wanted, const std::string& words);
  void Begin(const PluginRecord& wanted);
  absl::StatusOr<std::unique_ptr<SupervisedInstance>> Launch(const PluginRecord& wanted);
  std::shared_ptr<CsiChannel> Connect(const std::string& socket_path);  // closed where the thread is to stop
  absl::StatusOr<Introduction> Greet(SupervisedInstance& instance);
  void AttendStarting();
  void Promote(const Introduction& introduction);
  void AttendServing();
  void NoteHealth(const absl::Status& probed);
  void GiveUpServing(const std::string& why);
  void FailStarting(const std::string& words);
  void BackOff(const std::string& version, const std::string& words);
  LaunchSpec SpecOf(const InstanceDirectory& directory, const PluginRecord::Run& run) const;
  Launcher& LauncherOf(PluginRecord::Run::Kind kind) const;
  void Show();  // serving_ and starting_ in the status

  // supervised_adopt.cc: what an earlier manager has left.
  void Adopt();
  void AdoptLeft(const PluginRecord& wanted);
  bool AdoptOne(const InstanceDirectory& directory, const PluginRecord& wanted);  // false: it is to be looked at again
  bool LeaveForLater(const absl::Status& why);
  void AdoptEndpoint(const PluginRecord& wanted);

  // supervised_end.cc
  void WorkOnEnd();
  bool AwaitNextTry();  // false: the manager is stopping

  const Surroundings& around_;
  const SupervisorSettings& settings_;
  const std::string name_;

  mutable std::mutex mutex_;  // of these
  std::condition_variable changed_;
  PluginRecord wanted_;
  bool hurry_ = false;  // somebody wants it now: no back-off
  Goal goal_ = Goal::kSupervise;
  Status status_;
  std::uint64_t restarts_ = 0;
  bool leaving_ = false;
  bool over_ = false;
  int tries_to_end_ = 0;                             // all of it
  absl::Status ended_;                               // of the last of them
  std::vector<std::weak_ptr<CsiChannel>> channels_;  // closed where the thread is to stop: it may be in a call

  std::stop_source stop_;  // the thread is to stop: launches are given up

  // From here on of the thread alone.
  std::vector<InstanceDirectory> left_;  // they could not be looked at yet: again at look_again_at_
  absl::Status left_problem_;
  Clock::time_point look_again_at_ = Clock::time_point::max();
  std::unique_ptr<SupervisedInstance> serving_, starting_;
  std::string attended_;  // the version that back-off and next_try_ are of
  Clock::duration backoff_;
  Clock::time_point next_try_ = Clock::now();
  bool waits_for_end_ = false;  // nothing is begun before others have ended
  Waker waker_;
  Endings endings_;

  std::mutex join_mutex_;
  std::thread thread_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_SUPERVISED_PLUGIN_H_
