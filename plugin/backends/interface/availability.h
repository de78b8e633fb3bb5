// Whether the server of a pool answers. Only pools that the plugin mounts by itself have this (BackendType::own_mount):
// a call that reaches a dead server would hang, so it is refused before.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace mooring {

// Safe from several threads. The watcher of the pool calls Answered every second or two, and says what fails.
class Availability {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Availability(std::string pool) : pool_(std::move(pool)) {}

  // UNAVAILABLE: the pool is not ready yet, or its server has not answered for some seconds. The message says why.
  absl::Status Check(Clock::time_point now = Clock::now()) const;

  // It did answer, and Check says now that it has not for some seconds. Calls that reached it before may hang.
  bool IsSilent(Clock::time_point now = Clock::now()) const;

  void Answered();
  void Failed(const absl::Status& why);

  // A call could not do all of its work in the pool, and leaves the rest to the next reconcile. TakeLeftWork returns
  // whether there was such a call since it was asked last.
  void LeaveWork();
  bool TakeLeftWork();

 private:
  static constexpr std::chrono::seconds kPatience{6};

  const std::string pool_;
  mutable std::mutex mutex_;
  Clock::time_point answered_ = Clock::now();  // before the first answer: the start
  bool is_new_ = true;                         // no answer yet
  std::string why_;                            // not empty: the pool cannot be used
  bool work_left_ = false;
};

}  // namespace mooring
