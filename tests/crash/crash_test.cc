#include "tests/crash/crash_test.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "tests/rpc/support/helper_processes.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// MOORING_CRASH_STEPS=all: every step of every program, nothing left out. MOORING_CRASH_MOUNTER=helper: with the mount
// helper, where a test would have it all in one process.
bool WantsAll() {
  const char* steps = std::getenv("MOORING_CRASH_STEPS");
  return steps != nullptr && std::string(steps) == "all";
}
bool WantsHelper() {
  const char* mounter = std::getenv("MOORING_CRASH_MOUNTER");
  return mounter != nullptr && std::string(mounter) == "helper";
}

// All steps of Mooring's own. Left out: to be killed before a question, which is as to be killed before the change that
// comes next; and most of a tool's writes, of which there are hundreds: every so many of a kind will do.
std::vector<Blow> Chosen(const std::vector<Step>& steps, Blow blow) {
  constexpr std::size_t kOneOf = 12;
  std::vector<Blow> chosen;
  std::map<std::string, std::size_t> seen;
  for (const Step& step : steps) {
    blow.kind = KindOf(step);
    blow.nth = ++seen[blow.kind];
    const bool skipped = (step.asks && blow.error == 0) || (step.by_tool() && blow.nth % kOneOf != 1);
    if (!skipped || WantsAll()) chosen.push_back(blow);
  }
  return chosen;
}

std::string NameOfBlow(const Blow& blow) {
  if (blow.error == EIO) return "EIO at ";
  if (blow.error == ENOSPC) return "ENOSPC at ";
  return blow.program.empty() ? "SIGKILL before " : "SIGKILL to " + blow.program + " before ";
}

std::string Describe(const StepTrap::Outcome& outcome) {
  std::string text = outcome.hit ? ToString(*outcome.hit) : "which there was not";
  text += "\nsteps:\n";
  for (std::size_t i = 0; i < outcome.steps.size(); ++i) {
    text += "  " + std::to_string(i + 1) + " " + ToString(outcome.steps[i]) + "\n";
  }
  return text;
}

void Report(const std::string& call, const std::string& blow, std::size_t hits, std::size_t steps) {
  std::printf("%s: %s%zu of %zu steps\n", call.c_str(), blow.c_str(), hits, steps);
  ::testing::Test::RecordProperty("hits", static_cast<int>(hits));
}

// Whether the call that failed was one of Mooring's own that wanted room. SQLite calls a sync that finds none an I/O
// error.
bool WantedRoom(const Step& step) {
  static const std::set<std::string> kTakeRoom = {"write",  "pwrite64", "ftruncate",      "fallocate",
                                                  "openat", "open",     "mkdirat",        "mkdir",
                                                  "mknod",  "mknodat",  "copy_file_range"};
  const bool sync = step.call == "fsync" || step.call == "fdatasync";
  const bool of_database = step.object.find(".db") != std::string::npos;
  const bool of_kernel = step.object.starts_with("/sys/");
  return !step.by_tool() && !of_kernel && (kTakeRoom.contains(step.call) || (sync && !of_database));
}

// A disk that is full is told as such.
void ExpectClearlyFull(const StepTrap::Outcome& outcome, const absl::Status& status) {
  if (!outcome.hit || !WantedRoom(*outcome.hit)) return;
  EXPECT_TRUE(absl::IsResourceExhausted(status) || absl::IsOutOfRange(status)) << status;
}

}  // namespace

// On a tmpfs, where a sync costs nothing; the calls are the same.
void CrashTest::SetUp() {
  MountTmpfs(state_dir(), "size=2g,mode=0700");
  trap_ = std::make_unique<StepTrap>(dir().path());
  ASSERT_TRUE(trap_->ok()) << "these tests need seccomp's user notification (Linux 5.5, root)";
}

void CrashTest::TearDown() {
  RpcTest::TearDown();
  trap_.reset();
}

void CrashTest::Begin(Mounter mounter) {
  if (mounter == Mounter::kInProcess && !WantsHelper()) {
    plugin().options().flags.insert(plugin().options().flags.end(), {"--mounter", "in-process"});
  }
  if (GetParam().kind.parameters.contains("pool")) AddPools();
  mounts_before_ = Mounts().size();
  Launch();
  ASSERT_TRUE(IsReady()) << plugin().Log();
  Subject paths(driver(), dir(), GetParam().kind);
  paths.Beside().Beside();
  files_before_ = Files();
}

void CrashTest::AddPools() {
  const std::string directories = "name=directories,backend=directory,path=" + (dir() / "directories");
  plugin().options().flags.insert(plugin().options().flags.end(),
                                  {"--pool", directories, "--pool", "name=memory,backend=tmpfs,size=268435456"});
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

// So that where steps are left out, one test has those that the next one has not.
std::size_t CrashTest::FirstOf(const Attack& attack) {
  return GetParam().name.size() + static_cast<std::size_t>(attack.blow.error) +
         (attack.aftermath == Aftermath::kGivenUp ? 3 : 0);
}

std::vector<CrashTest::Attack> CrashTest::Rehearse(const Attack& attack) {
  const Hits unhurt = Play(attack);
  steps_ = unhurt.call.steps.size();
  const std::vector<Blow> blows = Chosen(unhurt.call.steps, attack.blow);
  const std::size_t enough = std::max<std::size_t>(blows.size() / 3, 1);  // of a few, three are tried
  const std::size_t every = WantsAll() ? 1 : std::min(GetParam().one_of, enough);
  const std::size_t first = FirstOf(attack);
  std::vector<Attack> attacks;
  for (std::size_t at = 0; at < blows.size(); ++at) {
    const bool frozen = blows[at].kind.ends_with("FITHAW");  // where a crash hurts most
    if ((at + first) % every != 0 && !frozen) continue;
    attacks.push_back(attack);
    attacks.back().blow = blows[at];
  }
  return attacks;
}

void CrashTest::Run(const Attack& attack) {
  ASSERT_NO_FATAL_FAILURE(Begin(attack.mounter));
  const std::vector<Attack> attacks = Rehearse(attack);
  std::size_t hits = 0;
  for (const Attack& one : attacks) {
    if (HasFailure()) return;
    hits += Play(one).call.hit ? 1 : 0;
  }
  // A look at what has not gone yet need not be there each time.
  EXPECT_GT(2 * hits, attacks.size()) << "blows that did not fall";
  Report(GetParam().name, NameOfBlow(attack.blow), hits, steps_);
}

// Behind a call that was cut in its middle, and behind one that was cut at its end. A start has some forty steps, most
// of them the same ones for every call: unless all are wanted, each call takes its share of them.
void CrashTest::RunAndKillTheStart() {
  ASSERT_NO_FATAL_FAILURE(Begin(Mounter::kInProcess));
  const std::vector<Attack> attacks = Rehearse({});
  ASSERT_FALSE(attacks.empty()) << "no step was seen at all";
  std::vector<Attack> cuts = {attacks[attacks.size() / 2]};
  if (WantsAll()) cuts.push_back(attacks.back());
  const std::size_t every = WantsAll() ? 1 : 4 * GetParam().one_of;
  std::size_t hits = 0;
  for (const Attack& cut : cuts) {
    for (std::size_t at = 1 + GetParam().name.size() % every; !HasFailure(); at += every, ++hits) {
      if (!Play(cut, at).start.hit) break;
    }
  }
  EXPECT_GT(hits, 0U) << "no blow fell";
  Report(GetParam().name, "SIGKILL to the next start before ", hits, hits);
}

CrashTest::Hits CrashTest::Play(const Attack& attack, std::size_t step_of_start) {
  Hits hits;
  const Blow& blow = attack.blow;
  Subject subject(driver(), dir(), GetParam().kind);
  GetParam().prepare(subject);
  if (HasFailure()) return hits;
  Settle();
  trap_->Arm(blow);
  const absl::Status first = GetParam().call(subject);
  hits.call = trap_->Disarm();
  SCOPED_TRACE(NameOfBlow(blow) + blow.kind + " number " + std::to_string(blow.nth) + ": " + Describe(hits.call));
  EXPECT_TRUE(hits.call.hit || first.ok()) << first;
  if (first.ok()) GetParam().check(subject);  // an OK that is none is worse than an error
  if (blow.error == ENOSPC && !first.ok()) ExpectClearlyFull(hits.call, first);
  Recover(attack, step_of_start, hits);
  SCOPED_TRACE("step of the start " + std::to_string(step_of_start) + ": " + Describe(hits.start));
  Finish(attack, subject, first);
  return hits;
}

// Killed behind its end, too: that is as before a step that would come next.
void CrashTest::Recover(const Attack& attack, std::size_t step_of_start, Hits& hits) {
  const bool one_of_several = hits.call.hit && !attack.blow.program.empty();
  if (attack.blow.error != 0 || one_of_several) return;
  trap_->Arm({.nth = step_of_start});
  Restart();
  const bool ready = IsReady();
  hits.start = trap_->Disarm();
  EXPECT_TRUE(ready || hits.start.hit) << plugin().Log();
  if (ready) return;
  Restart();
  EXPECT_TRUE(IsReady()) << plugin().Log();
}

void CrashTest::Finish(const Attack& attack, Subject& subject, const absl::Status& first) {
  if (GetParam().always) GetParam().always(subject);
  if (attack.aftermath == Aftermath::kCalledAgain) {
    EXPECT_OK(CallAgain(subject)) << "the first answer was: " << first;
    GetParam().check(subject);
  }
  const bool unfinished = attack.aftermath == Aftermath::kGivenUp && attack.blow.error != 0;
  // What an error left that nobody comes back for goes at the next start. And a helper that ends again and again is
  // started ever later.
  if (unfinished || !attack.blow.program.empty()) {
    Restart();
    EXPECT_TRUE(IsReady()) << plugin().Log();
  }
  subject.TakeDown();
  ExpectNothingLeft();
  if (!HasFailure()) driver().TakeDone();  // nothing is left to be taken back
}

// As an orchestrator: again after the errors that say so.
absl::Status CrashTest::CallAgain(Subject& subject) {
  absl::Status status;
  for (const auto deadline = Clock::now() + std::chrono::seconds(10);;) {
    status = GetParam().call(subject);
    const bool later = absl::IsAborted(status) || absl::IsUnavailable(status);
    if (!later || Clock::now() > deadline) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// So that each round begins alike: what goes a moment later has gone, and the databases' logs are empty.
void CrashTest::Settle() {
  for (const char* name : {"catalog.db", "node.db"}) Rows(state_dir() + "/" + name, "PRAGMA wal_checkpoint(TRUNCATE)");
  Eventually([this] {
    const std::vector<LoopLine> loops = LoopsHere();
    return std::none_of(loops.begin(), loops.end(), [this](const LoopLine& loop) {
      const bool mounted = !MountsBelow(dir() / "staging").empty() || !MountsBelow(dir() / "tasks").empty();
      return loop.auto_clear && !mounted;
    });
  });
}

std::vector<std::string> CrashTest::Strangers() {
  std::set<pid_t> ours = {plugin().pid(), SpawnerOf(plugin().pid()), HelperOf(plugin().pid())};
  std::vector<std::string> strangers;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || ours.contains(std::stoi(name))) continue;
    std::string command = ReadFile(entry.path() / "cmdline");
    std::replace(command.begin(), command.end(), '\0', ' ');
    if (command.find(dir().path()) != std::string::npos) strangers.push_back(name + " " + command);
  }
  return strangers;
}

// All that is below the test's directory, but for what comes and goes with an open database.
std::set<std::string> CrashTest::Files() const {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(dir().path())) {
    const std::string& path = entry.path().native();
    if (!path.ends_with(".template") && path.find(".db-") == std::string::npos) files.insert(path);
  }
  return files;
}

// All tables are empty, except those about the node and the boot, which no volume owns.
void CrashTest::ExpectNoRows(const std::string& database) {
  const std::string path = state_dir() + "/" + database;
  const std::string tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
  for (const std::string& table : Rows(path, tables)) {
    if (table == "boot" || table == "node") continue;
    EXPECT_THAT(Rows(path, "SELECT * FROM " + table), ::testing::IsEmpty()) << table << " of " << database;
  }
}

void CrashTest::ExpectNothingLeft() {
  EXPECT_EQ(Mounts().size(), mounts_before_) << RawMounts();
  EXPECT_TRUE(Eventually([this] { return LoopsHere().empty(); })) << "a loop device is left";
  EXPECT_EQ(Files(), files_before_);
  ExpectNoRows("catalog.db");
  ExpectNoRows("node.db");
  EXPECT_TRUE(Eventually([this] { return Strangers().empty(); })) << "runs on: " << Strangers().front();
}

TEST_P(CrashTest, KilledAndCalledAgain) { Run({}); }

TEST_P(CrashTest, KilledAndGivenUp) { Run({.aftermath = Aftermath::kGivenUp}); }

TEST_P(CrashTest, KilledAgainAtTheNextStart) { RunAndKillTheStart(); }

TEST_P(CrashTest, FailsWithEio) { Run({.blow = {.error = EIO}}); }

TEST_P(CrashTest, FailsWithEioAndIsGivenUp) { Run({.blow = {.error = EIO}, .aftermath = Aftermath::kGivenUp}); }

TEST_P(CrashTest, FailsWithEnospc) { Run({.blow = {.error = ENOSPC}}); }

// The helper alone: the plugin has it started anew, and answers.
TEST_P(HelperCrashTest, IsKilled) { Run({.mounter = Mounter::kHelper, .blow = {.program = "mooring-mounter"}}); }

}  // namespace mooring::testing
