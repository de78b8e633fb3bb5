// Stops programs before each of their steps, with seccomp_unotify(2). At the n-th step it kills the programs, or lets
// the system call fail. The programs are the shipped ones. Steps are counted over all threads and processes, in their
// order.
//
//   Launch(program) ── Arm(fault) ── an RPC, hit at its n-th step ── Disarm()
#pragma once

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

struct Fault {
  std::size_t nth = 0;       // the step to hit, from 1; 0: none
  int error = 0;             // the errno of the failing call; 0: SIGKILL before the call
  std::string kind = {};     // count only steps of this kind; empty: all
  std::string program = {};  // count only the steps of this program, and kill only it; empty: all
};

class StepTrap {
 public:
  explicit StepTrap(std::string directory);  // the test's: see StepOf
  StepTrap(const StepTrap&) = delete;
  StepTrap& operator=(const StepTrap&) = delete;
  ~StepTrap();

  bool ok() const { return announced_.ok(); }

  // Runs `start`, which forks, in a thread with the filter. The new process and its children keep the filter. `start`
  // returns the process that SIGKILL ends, together with its children.
  void Launch(const std::function<pid_t()>& start);

  void Arm(const Fault& fault);  // begins to count

  struct Outcome {
    std::vector<Step> steps;  // all that were counted; the one that was hit is the last
    std::optional<Step> hit;
    std::vector<Step> after;  // those that came after an error
  };
  Outcome Disarm();

 private:
  void LaunchInTurn();
  void Watch();
  void Answer();
  void CloseFile(const seccomp_notif& call);
  std::optional<int> Judge(const seccomp_notif& call);  // the errno; 0: let the call pass; empty: it was killed

  const std::string directory_;
  UniqueFd announced_, ending_, null_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false, ready_ = false;
  std::function<pid_t()> start_;  // the next task of the thread
  pid_t root_ = -1;
  std::optional<Fault> fault_;  // armed
  std::size_t counted_ = 0;
  Outcome outcome_;
  std::thread launcher_, watcher_;  // PR_SET_PDEATHSIG: a child ends with the thread that forked it
};

}  // namespace mooring::testing
