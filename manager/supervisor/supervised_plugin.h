// A plugin under supervision. A thread of the WorkQueue starts, watches, registers, restarts and replaces its
// instances. This class has the state that it shares with callers. supervisor.h draws the states.
//
//   callers ── Want, Terminate, Stop ──▶ SupervisedPlugin ◀──▶ PluginWorker, in the thread ──▶ instances
//           ◀── WaitUntilServing, StatusText ──┘
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/launch/instance_directory.h"
#include "manager/launch/wake_event.h"
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

  const std::string& name() const { return name_; }
  std::string StatusText() const;
  std::uint64_t restarts() const;  // of all versions
  bool IsOver() const;             // the thread has nothing more to do
  bool FailedToTerminate() const;  // Terminate has failed, and the thread tries again

  // For the thread.
  struct Status {
    std::string serving, handle;  // version and handle of the instance that serves; empty: none does
    std::optional<Clock::time_point> starting_since;
    std::optional<Clock::time_point> next_try;
    std::string failed;               // the version that could not be started, or that ended
    std::string problem;              // the last error; "": none
    int restarts = 0;                 // of this version
    std::uint64_t restarts_ever = 0;  // of all versions
  };
  PluginRecord wanted() const;
  bool TakeHurry();  // whether a caller has asked for a try now, without back-off, since the last call
  void Update(const std::function<void(Status& status)>& change);
  bool IsStopping() const;
  bool IsTerminating() const;
  bool NoteTermination(const absl::Status& outcome, bool nothing_left);  // gives whether the thread is over
  void NoteOver();

 private:
  template <typename Read>
  auto Locked(const Read& read) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return read();
  }
  void NoteBegun();
  void WakeUp();
  void EndSupervision();

  const std::string name_;
  mutable std::mutex mutex_;  // guards the members up to terminated_
  std::condition_variable changed_;
  PluginRecord wanted_;
  Status status_;
  bool hurry_ = false;
  bool terminating_;  // stays as it is once the manager is stopping
  bool stopping_ = false;
  bool begun_ = false;  // false: no thread could be started yet
  bool over_ = false;
  int tries_to_terminate_ = 0;
  absl::Status terminated_;  // the outcome of the last of these tries

  WakeEvent wake_;
  Terminator terminator_;
  std::stop_source stop_;  // ends the supervision
  WorkKind supervision_;   // one attempt, which lasts until then; at the limit of threads it waits for one
};

}  // namespace mooring::manager
