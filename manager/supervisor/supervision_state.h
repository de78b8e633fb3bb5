// The state of a supervised plugin that its thread shares with callers. Safe from several threads.
#ifndef MOORING_MANAGER_SUPERVISOR_SUPERVISION_STATE_H_
#define MOORING_MANAGER_SUPERVISOR_SUPERVISION_STATE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"

namespace mooring::manager {

class SupervisionState {
 public:
  struct Status {
    std::string serving, handle;  // version and handle of the instance that serves; empty: none does
    std::optional<Clock::time_point> starting_since;
    std::optional<Clock::time_point> next_try;
    std::string failed;               // the version that could not be started, or that ended
    std::string problem;              // the last error; "": none
    int restarts = 0;                 // of this version
    std::uint64_t restarts_ever = 0;  // of all versions
  };

  // A record with neither a run nor an endpoint is terminated from the beginning.
  explicit SupervisionState(PluginRecord wanted);

  // For callers.
  void Want(const PluginRecord& record);
  absl::Status WaitUntilServing(Clock::time_point until);  // as SupervisedPlugin::WaitUntilServing
  void BeginStop();
  int BeginTermination();                       // gives the number of tries so far
  absl::Status WaitUntilTerminated(int tried);  // for the next try after so many
  std::string Text() const;                     // for people
  std::uint64_t restarts() const;
  bool IsOver() const;             // the thread has nothing more to do
  bool FailedToTerminate() const;  // a try has failed, and the thread tries again

  // For the thread.
  PluginRecord wanted() const;
  bool TakeHurry();  // whether a caller has asked for a try now, without back-off, since the last call
  void Update(const std::function<void(Status& status)>& change);
  bool IsStopping() const;
  bool IsTerminating() const;
  bool NoteTermination(const absl::Status& outcome, bool nothing_left);  // gives whether the thread is over
  void NoteOver();

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  PluginRecord wanted_;
  Status status_;
  bool hurry_ = false;
  bool terminating_;  // stays as it is once the manager is stopping
  bool stopping_ = false;
  bool over_ = false;
  int tries_to_terminate_ = 0;
  absl::Status terminated_;  // the outcome of the last of these tries
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_SUPERVISION_STATE_H_
