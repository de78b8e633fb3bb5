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

  void EndBy(Clock::time_point until);  // none is given longer from now on

  // Each is tried, once at least from now on; the first error. OK: none is left, or the manager is stopping.
  absl::Status TryAll();

  bool AreOver() const;               // none is left
  std::string WhatHasFailed() const;  // for people: what could not be ended yet; "": nothing

  void BeginLeave();  // from any thread: no further tries
  void Leave();       // and waits for those under way

 private:
  struct Ending {
    std::unique_ptr<SupervisedInstance> instance;
    int tries = 0;
    absl::Status last;
    bool trying = true;
    bool try_now = false;
    bool over = false;
    std::thread thread;
  };

  void Work(Ending& ending);
  absl::Status TryToEnd(Ending& ending) const;
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
