// Sees each step that the programs started under it are about to make, before it is made, and at the n-th of them
// kills the programs, or has the call fail: seccomp_unotify(2). From outside: the programs are as they are shipped.
// Steps are counted over all threads and processes, in the order in which they are made.
//
//   Launch(program) ── Arm(blow) ── (an RPC; at its n-th step the blow) ── Disarm()
#ifndef MOORING_TESTS_CRASH_STEP_TRAP_H_
#define MOORING_TESTS_CRASH_STEP_TRAP_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file/unique_fd.h"
#include "tests/crash/step.h"

namespace mooring::testing {

struct Blow {
  std::size_t nth = 0;       // of the steps counted, from 1; 0: none
  int error = 0;             // the errno that the call fails with; 0: SIGKILL before it
  std::string kind = {};     // count those of this kind alone; empty: all
  std::string program = {};  // count the steps of this one alone, and kill it alone; empty: all
};

class StepTrap {
 public:
  explicit StepTrap(std::string directory);  // of the test: see StepOf
  StepTrap(const StepTrap&) = delete;
  StepTrap& operator=(const StepTrap&) = delete;
  ~StepTrap();

  bool ok() const { return announced_.ok(); }

  // Runs `start`, which forks, in a thread that is trapped; what it starts is trapped for good, and so are its
  // children. `start` returns the process at the root of those that SIGKILL is for.
  void Launch(const std::function<pid_t()>& start);

  void Arm(const Blow& blow);  // counts from here on

  struct Outcome {
    std::vector<Step> steps;  // those of the program, the one that was hit last
    std::optional<Step> hit;
  };
  Outcome Disarm();

 private:
  void LaunchInTurn();
  void Watch();
  void Answer();
  std::optional<int> Judge(const seccomp_notif& call);  // the errno to fail with; 0: let it pass; none: it was killed

  const std::string directory_;
  UniqueFd announced_, ending_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false, ready_ = false;
  std::function<pid_t()> start_;  // the thread's next task
  pid_t root_ = -1;
  std::optional<Blow> blow_;  // armed
  std::size_t counted_ = 0;
  Outcome outcome_;
  std::thread launcher_, watcher_;  // a child lives as long as the thread that forked it: PR_SET_PDEATHSIG
};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_CRASH_STEP_TRAP_H_
