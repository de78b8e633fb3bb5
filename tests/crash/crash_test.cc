#include "tests/crash/crash_test.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include "tests/crash/kernel_errors.h"
#include "tests/rpc/support/helper_processes.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kEachError = -1;  // of a fault that is a plan: the errors of ErrorsOf

// Uses the mount helper also in tests that otherwise use a single process.
bool WantsHelper() { return EnvironmentSays("MOORING_CRASH_MOUNTER", "helper"); }

// A step that is tried, and with an error the errors that it may fail with.
struct Try {
  Fault fault;
  std::vector<int> errors = {};
  bool looks = false;  // fails with one error also where every error is tried
};

// The tools make hundreds of writes, and each call looks at hundreds of files.
std::size_t EveryOf(const Step& step) {
  if (WantsAll()) return IsOnlyForErrors(step) ? 4 : 1;
  if (step.by_tool()) return 12;
  return IsOnlyForErrors(step) ? 20 : 1;
}

// All steps of Mooring's own programs, except those that EveryOf leaves out. A kill before a step that changes nothing
// is left out, because it equals a kill before the next change.
std::vector<Try> ChosenSteps(const std::vector<Step>& steps, Fault fault) {
  std::vector<Try> chosen;
  std::map<std::string, std::size_t> seen;
  for (const Step& step : steps) {
    fault.kind = KindOf(step);
    fault.nth = ++seen[fault.kind];
    const bool for_all = !step.asks || (WantsAll() && !IsOnlyForErrors(step));
    if (fault.error == 0 && !for_all) continue;
    if ((fault.nth - 1) % EveryOf(step) == 0) chosen.push_back({fault, ErrorsOf(step), IsOnlyForErrors(step)});
  }
  return chosen;
}

std::string NameOfFault(const Fault& fault) {
  if (fault.error == kEachError) return "errors at ";
  if (fault.error != 0) return NameOfError(fault.error) + " at ";
  return fault.program.empty() ? "SIGKILL before " : "SIGKILL to " + fault.program + " before ";
}

std::string Describe(const StepTrap::Outcome& outcome) {
  std::string text = outcome.hit ? ToString(*outcome.hit) : "no step";
  text += "\nsteps:\n";
  for (std::size_t i = 0; i < outcome.steps.size(); ++i) {
    text += "  " + std::to_string(i + 1) + " " + ToString(outcome.steps[i]) + "\n";
  }
  return text;
}

void Report(const std::string& call, const std::string& fault, std::size_t hits, std::size_t steps) {
  std::printf("%s: %s%zu of %zu steps\n", call.c_str(), fault.c_str(), hits, steps);
  ::testing::Test::RecordProperty("hits", static_cast<int>(hits));
}

}  // namespace

// The state is on a tmpfs, where a sync costs nothing. The calls are the same.
void CrashTest::SetUp() {
  MountTmpfs(state_dir(), "size=2g,mode=0700");
  // The directories of this process differ in their last characters. The files of disks_ belong to the test, too.
  trap_ = std::make_unique<StepTrap>(dir().path().substr(0, dir().path().rfind('-') + 1));
  ASSERT_TRUE(trap_->ok()) << "these tests need seccomp's user notification (Linux 5.5, root)";
}

void CrashTest::TearDown() {
  RpcTest::TearDown();
  if (!disk_.empty()) {
    EXPECT_EQ(Shell("losetup -d " + disk_), 0);
  }
  trap_.reset();
}

void CrashTest::Begin(Mounter mounter) {
  if (mounter == Mounter::kInProcess && !WantsHelper()) {
    AddFlags({"--mounter", "in-process"});
  }
  if (GetParam().kind.parameters.contains("pool")) AddPools();
  mounts_before_ = Mounts().size();  // no mounter runs yet
  Launch();
  ASSERT_TRUE(IsReady()) << plugin().Log();
  Subject paths(driver(), dir(), GetParam().kind);
  paths.Beside().Beside();
  files_before_ = Files();
}

void CrashTest::AddPools() {
  const std::string& pool = GetParam().kind.parameters.at("pool");
  if (pool == "disks") return AddDisk();
  if (pool == "subvolumes") return AddBtrfs();
  if (pool == "shared") {
    fs::create_directory(dir() / "shared");
    MountTmpfs(dir() / "shared", "size=1g,mode=0700");
    AddFlags({"--pool", "name=shared,backend=image,shared=true,path=" + (dir() / "shared")});
    return;
  }
  const std::string directories = "name=directories,backend=directory,path=" + (dir() / "directories");
  AddFlags({"--pool", directories, "--pool", "name=memory,backend=tmpfs,size=268435456"});
}

void CrashTest::AddBtrfs() {
  const std::string image = disks_ / "btrfs", at = dir() / "subvolumes";
  fs::create_directory(at);
  ASSERT_EQ(Shell("truncate -s 512M " + image + " && mkfs.btrfs -q -K " + image + " 2>/dev/null && mount -o loop " +
                  image + " " + at),
            0);
  AllowMount(at);
  AddFlags({"--pool", "name=subvolumes,backend=btrfs,path=" + at});
}

void CrashTest::AddDisk() {
  ASSERT_EQ(Shell("truncate -s " + std::to_string(GetParam().kind.bytes) + " " + (disks_ / "disk")), 0);
  disk_ = AttachLoop(disks_ / "disk");
  fs::create_directory(dir() / "links");
  fs::create_symlink(disk_, dir() / "links/disk-a");
  AddFlags({"--pool", "name=disks,backend=device,match=disk-*,path=" + (dir() / "links")});
}

// A deleted volume leaves its data on the disk.
void CrashTest::ClearDisk() {
  if (disk_.empty()) return;
  ASSERT_EQ(Shell("blkdiscard -f " + disk_ + " 2>/dev/null"), 0);
}

void CrashTest::Launch() {
  trap_->Launch([this] {
    plugin().Launch();
    return plugin().pid();
  });
}

bool CrashTest::IsReady() {
  const auto ready = [this] {
    driver().Connect();
    const auto answer = driver().Send(csi::v1::ProbeRequest());
    return answer.status.ok() && answer->ready().value();
  };
  return Eventually([&] { return !plugin().running() || ready(); }, std::chrono::seconds(10)) && plugin().running();
}

void CrashTest::Restart() {
  driver().Disconnect();
  plugin().Kill();
  Launch();
}

// So that each test tries other steps, if some are left out.
std::size_t CrashTest::FirstOf(const Round& round) {
  return GetParam().name.size() + (round.fault.error != 0 ? 5 : 0) + (round.next == Next::kDeleteVolume ? 3 : 0);
}

std::vector<CrashTest::Round> CrashTest::Plan(const Round& like) {
  const Hits unhurt = Play(like);
  steps_ = unhurt.call.steps.size();
  const std::vector<Try> tries = ChosenSteps(unhurt.call.steps, like.fault);
  const std::size_t enough = std::max<std::size_t>(tries.size() / 3, 1);  // a short call has three tries
  const std::size_t every = WantsAll() ? 1 : std::min(GetParam().one_of, enough);
  const std::size_t first = FirstOf(like);
  std::vector<Round> rounds;
  for (std::size_t at = 0; at < tries.size(); ++at) {
    const auto& [fault, errors, looks] = tries[at];
    const bool frozen = fault.kind.ends_with("FITHAW");  // always tried: a frozen filesystem is the worst loss
    if ((at + first) % every != 0 && !frozen) continue;
    const std::size_t count = fault.error == 0 || !WantsAll() || looks ? 1 : errors.size();
    for (std::size_t error = 0; error < count; ++error) {
      rounds.push_back(like);
      rounds.back().fault = fault;
      if (fault.error != 0) rounds.back().fault.error = errors[(error + at / every + first) % errors.size()];
    }
  }
  return rounds;
}

// Some steps wait for a resource that is not gone yet, or try again: btrfs may commit between two snapshots of a group.
// They are not made in each round. So a plan of which too few steps were hit is followed by another.
void CrashTest::Run(const Round& like) {
  ASSERT_NO_FATAL_FAILURE(Begin(like.mounter));
  std::size_t hits = 0, planned = 0;
  for (int plan = 0; plan < 3 && 2 * hits <= planned; ++plan) {
    const std::vector<Round> rounds = Plan(like);
    planned = rounds.size();
    hits = 0;
    for (const Round& round : rounds) {
      if (HasFailure()) return;
      hits += Play(round).call.hit || PlayAfterAStart(round).call.hit ? 1 : 0;
    }
  }
  EXPECT_GT(2 * hits, planned) << "too few steps were hit";
  Report(GetParam().name, NameOfFault(like.fault), hits, steps_);
}

// A plugin makes its first image with mkfs, and later ones of that size from the template that it keeps.
CrashTest::Hits CrashTest::PlayAfterAStart(const Round& round) {
  Restart();
  EXPECT_TRUE(IsReady()) << plugin().Log();
  return Play(round);
}

// The call before is killed in its middle, and with --all also at its end. A start has about forty steps, and most are
// the same for every call. So each call tries a part of them, unless all are wanted.
void CrashTest::RunAndKillTheStart() {
  ASSERT_NO_FATAL_FAILURE(Begin(Mounter::kInProcess));
  const std::vector<Round> rounds = Plan({});
  ASSERT_FALSE(rounds.empty()) << "the call has no steps";
  std::vector<Round> cuts = {rounds[rounds.size() / 2]};
  if (WantsAll()) cuts.push_back(rounds.back());
  const std::size_t every = WantsAll() ? 1 : 4 * GetParam().one_of;
  std::size_t hits = 0;
  for (const Round& cut : cuts) {
    for (std::size_t at = 1 + GetParam().name.size() % every; !HasFailure(); at += every, ++hits) {
      if (!Play(cut, at).start.hit) break;
    }
  }
  EXPECT_GT(hits, 0U) << "no step was hit";
  Report(GetParam().name, "SIGKILL to the next start before ", hits, hits);
}

CrashTest::Hits CrashTest::Play(const Round& round, std::size_t step_of_start) {
  Hits hits;
  const Fault& fault = round.fault;
  ClearDisk();
  Subject subject(driver(), dir(), GetParam().kind);
  GetParam().prepare(subject);
  if (HasFailure()) return hits;
  Settle();
  trap_->Arm(fault);
  const absl::Status first = GetParam().call(subject);
  hits.call = trap_->Disarm();
  SCOPED_TRACE(NameOfFault(fault) + fault.kind + " number " + std::to_string(fault.nth) + ": " + Describe(hits.call));
  EXPECT_TRUE(hits.call.hit || first.ok()) << first;
  if (first.ok()) GetParam().check(subject);  // an OK without the work is worse than an error
  if (fault.error != 0 && hits.call.hit && first.ok()) ExpectWrittenAgain(*hits.call.hit, hits.call.after);
  if (fault.error != 0 && hits.call.hit && !first.ok()) ExpectClearError(*hits.call.hit, fault.error, first);
  Recover(round, step_of_start, hits);
  SCOPED_TRACE("step of the start " + std::to_string(step_of_start) + ": " + Describe(hits.start));
  Finish(round, subject, first);
  return hits;
}

// Kills the plugin also if no step was hit. That equals a kill before the step that would come next.
void CrashTest::Recover(const Round& round, std::size_t step_of_start, Hits& hits) {
  const bool one_of_several = hits.call.hit && !round.fault.program.empty();
  if (round.fault.error != 0 || one_of_several) return;
  trap_->Arm({.nth = step_of_start});
  Restart();
  const bool ready = IsReady();
  hits.start = trap_->Disarm();
  EXPECT_TRUE(ready || hits.start.hit) << plugin().Log();
  if (ready) return;
  Restart();
  EXPECT_TRUE(IsReady()) << plugin().Log();
}

void CrashTest::Finish(const Round& round, Subject& subject, const absl::Status& first) {
  if (GetParam().always) GetParam().always(subject);
  if (round.next == Next::kCallAgain) {
    EXPECT_OK(CallAgain(subject)) << "the first answer was: " << first;
    GetParam().check(subject);
  }
  const bool unfinished = round.next == Next::kDeleteVolume && round.fault.error != 0;
  // The next start removes the remains of a failed call that nobody repeats. And the plugin restarts a helper later
  // each time that it ends.
  if (unfinished || !round.fault.program.empty()) {
    Restart();
    EXPECT_TRUE(IsReady()) << plugin().Log();
  }
  subject.TakeDown();
  ExpectNothingLeft();
  if (!HasFailure()) driver().TakeDone();  // nothing is left to undo
}

// Repeats the call after ABORTED and UNAVAILABLE, as an orchestrator does.
absl::Status CrashTest::CallAgain(Subject& subject) {
  absl::Status status;
  for (const auto deadline = Clock::now() + std::chrono::seconds(10);;) {
    status = GetParam().call(subject);
    const bool later = absl::IsAborted(status) || absl::IsUnavailable(status);
    if (!later || Clock::now() > deadline) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// So that each round begins alike: loop devices that go by themselves are gone, and the logs of the databases are
// empty.
void CrashTest::Settle() {
  for (const char* name : {"catalog.db", "node.db"}) Rows(state_dir() + "/" + name, "PRAGMA wal_checkpoint(TRUNCATE)");
  Eventually(
      [this] {
        const std::vector<LoopLine> loops = LoopsHere();
        return std::none_of(loops.begin(), loops.end(), [this](const LoopLine& loop) {
          const bool mounted = !MountsBelow(dir() / "staging").empty() || !MountsBelow(dir() / "tasks").empty();
          return loop.auto_clear && !mounted;
        });
      },
      std::chrono::seconds(3));
}

// Processes that have the test's directory on their command line, except the plugin, its spawner and its helper.
std::vector<std::string> CrashTest::LeftProcesses() {
  std::set<pid_t> ours = {plugin().pid(), SpawnerOf(plugin().pid()), HelperOf(plugin().pid())};
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || ours.contains(std::stoi(name))) continue;
    std::string command = ReadFile(entry.path() / "cmdline");
    std::replace(command.begin(), command.end(), '\0', ' ');
    if (command.find(dir().path()) != std::string::npos) left.push_back(name + " " + command);
  }
  return left;
}

// All files below the test's directory, except templates and the files of an open database.
std::set<std::string> CrashTest::Files() const {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(dir().path())) {
    const std::string& path = entry.path().native();
    if (!path.ends_with(".template") && path.find(".db-") == std::string::npos) files.insert(path);
  }
  return files;
}

// All tables are empty, except those about the pool, the node and the boot, which no volume owns.
void CrashTest::ExpectNoRows(const std::string& database) {
  static const std::set<std::string> kAboutThePlugin = {"boot", "node", "nodes", "pool", "pool_tags"};
  const std::string path = state_dir() + "/" + database;
  const std::string tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
  for (const std::string& table : Rows(path, tables)) {
    if (kAboutThePlugin.contains(table)) continue;
    EXPECT_THAT(Rows(path, "SELECT * FROM " + table), ::testing::IsEmpty()) << table << " of " << database;
  }
}

// Without the scratch of the mounter that runs now.
std::size_t CrashTest::OtherMounts() {
  const pid_t helper = HelperOf(plugin().pid());
  const std::string own = fmt::format("/mooring-scratch/{}-", helper > 0 ? helper : plugin().pid());
  const std::vector<MountLine> mounts = Mounts();
  return static_cast<std::size_t>(std::count_if(mounts.begin(), mounts.end(), [&](const MountLine& line) {
    return line.target.find(own) == std::string::npos || !line.target.ends_with("/tmpfs");
  }));
}

void CrashTest::ExpectNothingLeft() {
  // A thread of the mounter that runs now removes the scratches of killed ones.
  EXPECT_TRUE(Eventually([&] { return OtherMounts() == mounts_before_; })) << RawMounts();
  ExpectNoLoops();
  EXPECT_EQ(Files(), files_before_);
  ExpectNoRows("catalog.db");
  ExpectNoRows("node.db");
  if (fs::exists(dir() / "subvolumes")) {
    const std::string groups = RunOutput("btrfs qgroup show " + (dir() / "subvolumes"));
    EXPECT_THAT(groups, ::testing::HasSubstr("\n0/5 "));  // there are quotas
    EXPECT_THAT(groups, ::testing::Not(::testing::HasSubstr("\n1/")));
  }
  if (fs::exists(dir() / "shared")) ExpectNoRows("../shared/.mooring/catalog.db");
  std::vector<std::string> left;
  EXPECT_TRUE(Eventually([&] { return (left = LeftProcesses()).empty(); })) << ::testing::PrintToString(left);
}

TEST_P(CrashTest, KilledAndCalledAgain) { Run({}); }

TEST_P(CrashTest, KilledAndGivenUp) { Run({.next = Next::kDeleteVolume}); }

TEST_P(CrashTest, KilledAgainAtTheNextStart) { RunAndKillTheStart(); }

TEST_P(KernelErrorTest, FailsAndIsCalledAgain) { Run({.fault = {.error = kEachError}}); }

TEST_P(KernelErrorTest, FailsAndIsGivenUp) { Run({.fault = {.error = kEachError}, .next = Next::kDeleteVolume}); }

// Only the helper is killed. The plugin has it started again, and answers.
TEST_P(HelperCrashTest, IsKilled) { Run({.mounter = Mounter::kHelper, .fault = {.program = "mooring-mounter"}}); }

}  // namespace mooring::testing
