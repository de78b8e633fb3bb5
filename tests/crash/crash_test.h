// Crash at each step: a call is made again and again, and each time its next step is where the blow falls. Then the
// orchestrator does as it does after a crash: it waits for the plugin and makes the same call again, or gives the
// volume up. Whatever step it was, the call succeeds then, the data is there, and at the end nothing is left.
//
//   prepare ── call, hit at step n ── restart ── call again ── check ── take down ── nothing left     n = 1, 2, 3, …
//
// A new call is a row in a table: crash_node_test.cc, crash_copy_test.cc and the others. Which steps are tried: Chosen,
// in crash_test.cc.
#ifndef MOORING_TESTS_CRASH_CRASH_TEST_H_
#define MOORING_TESTS_CRASH_CRASH_TEST_H_

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
  VolumeKind kind = {};
  std::function<void(Subject&)> prepare;
  std::function<absl::Status(Subject&)> call;
  std::function<void(Subject&)> check;        // once the call has succeeded
  std::function<void(Subject&)> always = {};  // whatever came of it, as soon as the plugin answers again
  std::size_t one_of = 1;                     // unless all are wanted: of so many steps one is tried
};

inline void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }
inline std::string NameOf(const ::testing::TestParamInfo<Scenario>& info) { return info.param.name; }

class CrashTest : public RpcTest, public ::testing::WithParamInterface<Scenario> {
 protected:
  enum class Mounter { kInProcess, kHelper };
  enum class Aftermath { kCalledAgain, kGivenUp };

  struct Attack {
    Mounter mounter = Mounter::kInProcess;
    Blow blow = {};  // upon which step is that of the round
    Aftermath aftermath = Aftermath::kCalledAgain;
  };

  void SetUp() override;
  void TearDown() override;

  void Run(const Attack& attack);
  void RunAndKillTheStart();  // the next process, too, at each step it makes before it is ready

 private:
  // One time through the drawing above. What was hit, in the call and in the start behind it.
  struct Hits {
    StepTrap::Outcome call, start;
  };
  Hits Play(const Attack& attack, std::size_t step_of_start = 0);
  void Recover(const Attack& attack, std::size_t step_of_start, Hits& hits);
  void Finish(const Attack& attack, Subject& subject, const absl::Status& first);

  std::vector<Attack> Rehearse(const Attack& attack);  // nobody is hit; an attack upon each step that is to be tried
  static std::size_t FirstOf(const Attack& attack);
  void Begin(Mounter mounter);
  void AddPools();
  void Launch();
  bool IsReady();  // or has ended: false
  void Restart();  // a new process, whatever the one before does
  void Settle();
  absl::Status CallAgain(Subject& subject);
  std::set<std::string> Files() const;
  void ExpectNoRows(const std::string& database);
  void ExpectNothingLeft();
  std::vector<std::string> Strangers();

  std::unique_ptr<StepTrap> trap_;
  std::size_t mounts_before_ = 0;
  std::set<std::string> files_before_;
  std::size_t steps_ = 0;  // of the call, as rehearsed
};

// Those that have steps of their own in the mount helper.
class HelperCrashTest : public CrashTest {};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_CRASH_CRASH_TEST_H_
