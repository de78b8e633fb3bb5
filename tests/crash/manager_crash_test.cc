// The manager is killed before each step of an attach or a detach, and started again. A second test also kills it at
// each step of that start. Then the volume is either attached or detached, and the same call succeeds. At the end no
// mount, claim or record is left.
//
//   prepare ── call, killed at step n ── start (killed at step m) ── settled ── attach ── detach ── nothing left
#include <gmock/gmock.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/crash/manager_subject.h"
#include "tests/crash/step_trap.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

struct ManagerCall {
  std::string name;
  bool attached_before = false;
  std::function<absl::Status(ManagerSubject&)> call;
};

void PrintTo(const ManagerCall& call, std::ostream* out) { *out << call.name; }

std::string Describe(const StepTrap::Outcome& outcome) {
  std::string text = outcome.hit ? "killed before " + ToString(*outcome.hit) : "not killed";
  for (const Step& step : outcome.steps) text += "\n  " + ToString(step);
  return text;
}

class ManagerCrashTest : public RpcTest, public ::testing::WithParamInterface<ManagerCall> {
 protected:
  // The state is on tmpfs, where a sync costs nothing. The calls are the same.
  void SetUp() override {
    ShareDirectory();
    MountTmpfs(state_dir(), "size=64m,mode=0700");
    MountTmpfs(dir() / "manager", "size=64m,mode=0700");
    trap_ = std::make_unique<StepTrap>(dir().path());
    ASSERT_TRUE(trap_->ok()) << "these tests need seccomp's user notification (Linux 5.5, root)";
    AddFlags({"--pool", "name=directories,backend=directory,path=" + MakeDirectories("directories")});
    ASSERT_NO_FATAL_FAILURE(Start());
    subject_ = std::make_unique<ManagerSubject>(*trap_, dir(), dir() / "csi.sock");
    subject_->Launch();
    ASSERT_TRUE(subject_->IsReady()) << subject_->Log();
    ASSERT_NO_FATAL_FAILURE(subject_->Prepare());
  }

  void TearDown() override {
    if (!HasFailure()) subject_->TakeDown();
    if (HasFailure()) std::fprintf(stderr, "The manager's log:\n%s\n", subject_->Log().c_str());
    subject_.reset();
    RpcTest::TearDown();
    trap_.reset();
  }

  ManagerSubject& subject() { return *subject_; }

  struct Hits {
    StepTrap::Outcome call, start;
  };
  Hits Play(const Fault& fault, std::size_t step_of_start = 0);

 private:
  StepTrap::Outcome Restart(std::size_t killed_at);

  std::unique_ptr<StepTrap> trap_;
  std::unique_ptr<ManagerSubject> subject_;
};

// Counts by kind, because the k-th step of a kind is the same step each time.
std::vector<Fault> FaultsAt(const std::vector<Step>& steps) {
  std::vector<Fault> faults;
  std::map<std::string, std::size_t> seen;
  for (const Step& step : steps) {
    const std::string kind = KindOf(step);
    const std::size_t nth = ++seen[kind];
    if (!step.asks) faults.push_back({.nth = nth, .kind = kind});
  }
  return faults;
}

StepTrap::Outcome ManagerCrashTest::Restart(std::size_t killed_at) {
  subject().Kill();
  trap_->Arm({.nth = killed_at});
  subject().Launch();
  const bool ready = subject().IsReady();
  const StepTrap::Outcome outcome = trap_->Disarm();
  EXPECT_TRUE(ready || outcome.hit) << subject().Log();
  if (!outcome.hit) return outcome;
  subject().Kill();  // The step may have come after the manager was ready. Reaps the process.
  subject().Launch();
  EXPECT_TRUE(subject().IsReady()) << subject().Log();
  return outcome;
}

ManagerCrashTest::Hits ManagerCrashTest::Play(const Fault& fault, std::size_t step_of_start) {
  Hits hits;
  if (GetParam().attached_before) {
    EXPECT_OK(subject().Attach());
  }
  trap_->Arm(fault);
  const absl::Status first = GetParam().call(subject());
  hits.call = trap_->Disarm();
  SCOPED_TRACE(Describe(hits.call));
  EXPECT_TRUE(hits.call.hit || first.ok()) << first;
  hits.start = Restart(step_of_start);
  SCOPED_TRACE("the next start: " + Describe(hits.start));
  subject().ExpectSettled();
  subject().ExpectBystander();
  EXPECT_OK(subject().Attach());
  subject().ExpectAttached();
  EXPECT_OK(subject().Detach());
  subject().ExpectDetached();
  subject().ExpectBystander();
  return hits;
}

TEST_P(ManagerCrashTest, RecoversFromAKillAtEachStep) {
  const std::vector<Step> steps = Play({}).call.steps;
  ASSERT_FALSE(steps.empty()) << "the call has no steps";
  std::size_t hits = 0;
  for (const Fault& fault : FaultsAt(steps)) {
    if (HasFailure()) return;
    hits += Play(fault).call.hit ? 1 : 0;
  }
  EXPECT_GT(2 * hits, steps.size()) << "too few steps were hit";
  std::printf("%s: SIGKILL to the manager before %zu of %zu steps\n", GetParam().name.c_str(), hits, steps.size());
}

// The call before is killed in its middle.
TEST_P(ManagerCrashTest, RecoversFromASecondKillAtEachStepOfTheNextStart) {
  const std::vector<Fault> faults = FaultsAt(Play({}).call.steps);
  ASSERT_FALSE(faults.empty()) << "the call has no steps";
  const Fault& cut = faults[faults.size() / 2];
  std::size_t hits = 0;
  for (std::size_t at = 1; !HasFailure() && Play(cut, at).start.hit; ++at) ++hits;
  EXPECT_GT(hits, 0U) << "no step was hit";
  std::printf("%s: SIGKILL to the next start before %zu steps\n", GetParam().name.c_str(), hits);
}

const ManagerCall kAttach = {
    .name = "Attach", .attached_before = false, .call = [](ManagerSubject& subject) { return subject.Attach(); }};
const ManagerCall kDetach = {
    .name = "Detach", .attached_before = true, .call = [](ManagerSubject& subject) { return subject.Detach(); }};

std::string NameOf(const ::testing::TestParamInfo<ManagerCall>& call) { return call.param.name; }

INSTANTIATE_TEST_SUITE_P(Calls, ManagerCrashTest, ::testing::Values(kAttach, kDetach), NameOf);

}  // namespace
}  // namespace mooring::testing
