// The ends of a plugin's instances. Each has a thread of its own, so that the plugin is watched meanwhile; an end that
// fails is tried again until it succeeds.
#ifndef MOORING_MANAGER_SUPERVISOR_ENDINGS_H_
#define MOORING_MANAGER_SUPERVISOR_ENDINGS_H_

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "manager/supervisor/supervised_instance.h"
#include "manager/supervisor/surroundings.h"

namespace mooring::manager {

// Used by the thread of its plugin.
class Endings {
 public:
  // `on_change` is called from any thread: an end has succeeded, or failed.
  Endings(const Surroundings& around, std::string plugin, std::function<void()> on_change);
  ~Endings();  // Leave

  // Out of the registry at once, then ended.
  void Begin(std::unique_ptr<SupervisedInstance> instance);

  // From any thread: none is given longer from now on, nor is one whose try is under way.
  void EndBy(Clock::time_point until);

  // Each has been tried, by a try that began at `since` or later; the first error. OK: none is left. CANCELLED: the
  // manager is stopping.
  absl::Status TryAll(Clock::time_point since);

  bool AreOver() const;               // none is left
  std::string WhatHasFailed() const;  // for people: what could not be ended yet; "": nothing

  void BeginLeave();  // from any thread: no further tries, and those under way are given up
  void Leave();       // and waits until they are

 private:
  struct Ending {
    std::unique_ptr<SupervisedInstance> instance;
    std::shared_ptr<EndDeadline> deadline;  // of the try under way; null: none is
    Clock::time_point began = {};           // of that, or of the last
    int tries = 0;                          // that are over
    absl::Status last;
    bool try_now = false;
    bool over = false;
    std::thread thread;
  };

  void Work(Ending& ending);
  std::shared_ptr<EndDeadline> BeginTry(Ending& ending);
  absl::Status TryToEnd(Ending& ending);
  void ForgetEnded();

  const Surroundings& around_;
  const std::string plugin_;
  const std::function<void()> on_change_;

  mutable std::mutex mutex_;  // of these; none is ended under it
  std::condition_variable changed_;
  std::list<Ending> endings_;  // the list itself: of its user's thread alone
  Clock::time_point end_by_ = Clock::time_point::max();
  bool leaving_ = false;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_ENDINGS_H_
