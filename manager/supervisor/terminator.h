// Ends the instances of a plugin that are no longer used. Each end is work of the WorkQueue, so that the plugin's
// thread goes on watching the others. An end that fails is tried again until it succeeds.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/supervisor/supervised_instance.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

// Used by the thread of its plugin, except where a method says otherwise.
class Terminator {
 public:
  // `on_change` is called from any thread when an end has succeeded or failed.
  Terminator(const SupervisorDependencies& deps, std::string plugin, std::function<void()> on_change);
  ~Terminator();  // Stop

  // Deregisters the instance at once, then ends it in the background.
  void Begin(std::unique_ptr<SupervisedInstance> instance);

  // From any thread: brings the deadline of every try forward to `until`, also of the tries under way.
  void EndBy(Clock::time_point until);

  // Tries to end each instance now, and waits for these tries, which begin at `since` or later. Gives the first error.
  // OK: none is left. CANCELLED: the manager is stopping.
  absl::Status TryAll(Clock::time_point since);

  bool IsIdle() const;                 // no instance is left
  std::string FailedInstance() const;  // the handle of an instance whose last try failed; "": none did

  void BeginStop();  // from any thread: gives up the tries under way, and begins no others
  // The same, and waits for the tries. Instances that were not tried yet get their signal.
  void Stop();

 private:
  struct Termination {
    std::unique_ptr<SupervisedInstance> instance;
    std::stop_source cut;  // of the try under way: stopped when its deadline has changed, or at the stop
    Clock::time_point began = {}, until = {};  // of the try under way, or of the last one
    bool under_way = false;
    int tries = 0;  // that are over
    absl::Status last;
  };

  absl::Status Try(Termination& termination);
  absl::Status End(SupervisedInstance& instance, Clock::time_point until, const std::stop_token& cut);
  std::stop_token BeginTry(Termination& termination);
  void Conclude(Termination& termination, const absl::Status& status);
  bool IsStopping() const;

  const SupervisorDependencies& deps_;
  const std::string plugin_;
  const std::function<void()> on_change_;

  mutable std::mutex mutex_;  // guards all below; no instance is ended or destroyed under it
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Termination>> terminations_;
  std::uint64_t begun_ = 0;
  Clock::time_point end_by_ = Clock::time_point::max();
  bool stopping_ = false;

  WorkKind ends_;
};

}  // namespace mooring::manager
