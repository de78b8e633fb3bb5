// A crash at each step of a call. The test repeats the call, and each round hits its next step: it kills the programs,
// or lets the system call fail. Then the test does what an orchestrator does after a crash. It waits for the plugin,
// and repeats the call or deletes the volume. The repeated call must succeed, the data must be there, and at the end
// nothing may be left.
//
//   prepare ── call, hit at step n ── restart ── call again ── check ── take down ── nothing left     n = 1, 2, 3, …
//
// A new call is a row in a table in crash_volume_test.cc, crash_copy_test.cc or crash_pool_test.cc. ChosenSteps in
// crash_test.cc says which steps are tried.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "tests/crash/step_trap.h"
#include "tests/crash/subject.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {

struct Scenario {
  std::string name;
  VolumeKind kind;
  std::function<void(Subject&)> prepare;
  std::function<absl::Status(Subject&)> call;
  std::function<void(Subject&)> check;        // after the call has succeeded
  std::size_t one_of = 1;                     // tries one step of so many, unless all steps are wanted
  std::function<void(Subject&)> always = {};  // after any outcome, as soon as the plugin answers again
};

inline void IsNothing(Subject&) {}  // for `prepare`

inline void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }
inline std::string NameOf(const ::testing::TestParamInfo<Scenario>& info) { return info.param.name; }

class CrashTest : public RpcTest, public ::testing::WithParamInterface<Scenario> {
 protected:
  enum class Mounter { kInProcess, kHelper };
  enum class Next { kCallAgain, kDeleteVolume };

  struct Round {
    Mounter mounter = Mounter::kInProcess;
    Fault fault = {};
    Next next = Next::kCallAgain;
  };

  void SetUp() override;
  void TearDown() override;

  void Run(const Round& like);
  void RunAndKillTheStart();  // kills the next process, too, at each step before it is ready

 private:
  // A round of the drawing above. Returns the steps that were hit in the call and in the start after it.
  struct Hits {
    StepTrap::Outcome call, start;
  };
  Hits Play(const Round& round, std::size_t step_of_start = 0);
  Hits PlayAfterAStart(const Round& round);
  void Recover(const Round& round, std::size_t step_of_start, Hits& hits);
  void Finish(const Round& round, Subject& subject, const absl::Status& first);

  std::vector<Round> Plan(const Round& like);  // plays a round without a fault; returns a round for each step to try
  static std::size_t FirstOf(const Round& round);
  void Begin(Mounter mounter);
  void AddPools();
  void AddDisk();  // a pool with a single device, and clears it
  void ClearDisk();
  void AddBtrfs();  // a pool of subvolumes
  void Launch();
  bool IsReady();  // false: the plugin has ended
  void Restart();  // kills the plugin and launches the next one
  void Settle();
  absl::Status CallAgain(Subject& subject);
  std::set<std::string> Files() const;
  void ExpectNoRows(const std::string& database);
  void ExpectNothingLeft();
  std::size_t OtherMounts();
  std::vector<std::string> LeftProcesses();

  std::unique_ptr<StepTrap> trap_;
  TempDir disks_;     // outside the directory of the plugin, where no loop device may be left
  std::string disk_;  // "/dev/loop3"; "": there is no such pool
  std::size_t mounts_before_ = 0;
  std::set<std::string> files_before_;
  std::size_t steps_ = 0;  // of the call, in the round without a fault
};

// Each step fails with each of its errors. Without --all, it fails with one of them.
class KernelErrorTest : public CrashTest {};

// The calls that have steps in the mount helper.
class HelperCrashTest : public CrashTest {};

}  // namespace mooring::testing
