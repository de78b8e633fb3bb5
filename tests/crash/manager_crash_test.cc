// The manager is killed before each step of an attach or a detach, and started again. A second test also kills it at
// each step of that start. Then the volume is either attached or detached, and the same call succeeds. At the end no
// mount, claim or record is left. ManagerErrorTest lets system calls fail, and the same manager goes on.
//
//   prepare ── call, killed at step n ── start (killed at step m) ── settled ── attach ── detach ── nothing left
#include <gmock/gmock.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/crash/kernel_errors.h"
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
  std::string text = outcome.hit ? ToString(*outcome.hit) : "no step";
  for (const Step& step : outcome.steps) text += "\n  " + ToString(step);
  return text;
}

class ManagerFixture : public RpcTest {
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
  StepTrap& trap() { return *trap_; }

 private:
  std::unique_ptr<StepTrap> trap_;
  std::unique_ptr<ManagerSubject> subject_;
};

class ManagerCrashTest : public ManagerFixture, public ::testing::WithParamInterface<ManagerCall> {
 protected:
  struct Hits {
    StepTrap::Outcome call, start;
  };
  Hits Play(const Fault& fault, std::size_t step_of_start = 0);

 private:
  StepTrap::Outcome Restart(std::size_t killed_at);
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
  trap().Arm({.nth = killed_at});
  subject().Launch();
  const bool ready = subject().IsReady();
  const StepTrap::Outcome outcome = trap().Disarm();
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
  trap().Arm(fault);
  const absl::Status first = GetParam().call(subject());
  hits.call = trap().Disarm();
  SCOPED_TRACE("killed before " + Describe(hits.call));
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
  const std::vector<Fault> faults = FaultsAt(Play({}).call.steps);
  ASSERT_FALSE(faults.empty()) << "the call has no steps";
  std::size_t hits = 0;
  for (const Fault& fault : faults) {
    if (HasFailure()) return;
    hits += Play(fault).call.hit ? 1 : 0;
  }
  EXPECT_GT(2 * hits, faults.size()) << "too few steps were hit";
  std::printf("%s: SIGKILL to the manager before %zu of %zu steps\n", GetParam().name.c_str(), hits, faults.size());
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

// A call of which a system call fails. Afterwards the same call succeeds.
struct FailingCall {
  std::string name;
  std::function<absl::Status(ManagerSubject&)> prepare, call;
  std::function<void(ManagerSubject&)> check;  // after the call has succeeded
  std::function<absl::Status(ManagerSubject&)> undo;
};

void PrintTo(const FailingCall& call, std::ostream* out) { *out << call.name; }

class ManagerErrorTest : public ManagerFixture, public ::testing::WithParamInterface<FailingCall> {
 protected:
  StepTrap::Outcome Play(const Fault& fault);
  std::vector<Fault> Plan(const std::vector<Step>& steps) const;
};

absl::Status CalledAgain(const std::function<absl::Status()>& call) {
  absl::Status status;
  WaitUntil([&] { return !absl::IsAborted(status = call()) && !absl::IsUnavailable(status); },
            std::chrono::seconds(20));
  return status;
}

StepTrap::Outcome ManagerErrorTest::Play(const Fault& fault) {
  EXPECT_OK(GetParam().prepare(subject()));
  trap().Arm(fault);
  const absl::Status first = GetParam().call(subject());
  StepTrap::Outcome hit = trap().Disarm();
  SCOPED_TRACE((fault.nth == 0 ? "" : NameOfError(fault.error) + " at ") + Describe(hit));
  EXPECT_TRUE(hit.hit || first.ok()) << first;
  if (first.ok()) GetParam().check(subject());
  if (first.ok() && hit.hit) ExpectWrittenAgain(*hit.hit, hit.after);
  if (hit.hit && !first.ok()) ExpectClearError(*hit.hit, fault.error, first);
  subject().ExpectBystander();
  EXPECT_OK(CalledAgain([&] { return GetParam().call(subject()); })) << "the first answer was: " << first;
  GetParam().check(subject());
  EXPECT_OK(GetParam().undo(subject()));
  subject().ExpectDetached();
  subject().ExpectThird(false);
  subject().ExpectBystander();
  return hit;
}

// Without --all, about 16 of the steps, each with one error.
std::vector<Fault> ManagerErrorTest::Plan(const std::vector<Step>& steps) const {
  const std::size_t every = WantsAll() ? 1 : steps.size() / 16 + 1;
  std::vector<Fault> faults;
  std::map<std::string, std::size_t> seen;
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const std::string kind = KindOf(steps[at]);
    const std::size_t nth = ++seen[kind];
    // A directory that cannot be removed goes with the volume.
    if (at % every != GetParam().name.size() % every || steps[at].call == "rmdir") continue;
    const std::vector<int> errors = ErrorsOf(steps[at]);
    for (std::size_t error = 0; error < (WantsAll() ? errors.size() : 1); ++error) {
      faults.push_back({.nth = nth, .error = errors[(error + at / every) % errors.size()], .kind = kind});
    }
  }
  return faults;
}

TEST_P(ManagerErrorTest, FailsAndIsCalledAgain) {
  const std::vector<Fault> faults = Plan(Play({}).steps);
  std::size_t hits = 0;
  for (const Fault& fault : faults) {
    if (HasFailure()) return;
    hits += Play(fault).hit ? 1 : 0;
  }
  EXPECT_GT(2 * hits, faults.size()) << "too few steps were hit";
  std::printf("%s: errors of the kernel at %zu steps\n", GetParam().name.c_str(), hits);
}

absl::Status Nothing(ManagerSubject&) { return absl::OkStatus(); }

std::vector<FailingCall> FailingCalls() {
  using Subject = ManagerSubject;
  const auto is_there = [](Subject& subject) { subject.ExpectThird(true); };
  const auto is_gone = [](Subject& subject) { subject.ExpectThird(false); };
  return {{"Attach", Nothing, &Subject::Attach, &Subject::ExpectAttached, &Subject::Detach},
          {"Detach", &Subject::Attach, &Subject::Detach, &Subject::ExpectDetached, Nothing},
          {"Create", Nothing, &Subject::CreateThird, is_there, &Subject::DeleteThird},
          {"Delete", &Subject::CreateThird, &Subject::DeleteThird, is_gone, Nothing}};
}

std::string NameOfCall(const ::testing::TestParamInfo<FailingCall>& call) { return call.param.name; }

INSTANTIATE_TEST_SUITE_P(Calls, ManagerErrorTest, ::testing::ValuesIn(FailingCalls()), NameOfCall);

const ManagerCall kAttach = {
    .name = "Attach", .attached_before = false, .call = [](ManagerSubject& subject) { return subject.Attach(); }};
const ManagerCall kDetach = {
    .name = "Detach", .attached_before = true, .call = [](ManagerSubject& subject) { return subject.Detach(); }};

std::string NameOf(const ::testing::TestParamInfo<ManagerCall>& call) { return call.param.name; }

INSTANTIATE_TEST_SUITE_P(Calls, ManagerCrashTest, ::testing::Values(kAttach, kDetach), NameOf);

}  // namespace
}  // namespace mooring::testing
