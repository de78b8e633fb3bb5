// The supervisor ends plugins, and finds them again after a restart of the manager.
#include "tests/manager/supervisor/supervisor_fixture.h"
#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

using manager::PluginRecord;

class SupervisorStopTest : public SupervisorFixture {
 protected:
  // An update whose old instance does not end.
  void HangInEndOfOldInstance() {
    settings_.end_time = settings_.end_again = seconds(60);
    RestartManager();
    ASSERT_OK(RunPlugin("one", "old"));
    exec_.HangEnds();
    ASSERT_OK(RunPlugin("one", "new"));
    ASSERT_EQ(exec_.WaitForEnds(1), 1);
  }
};

TEST_F(SupervisorStopTest, StartsNothingBesideAnInstanceThatCannotBeEnded) {
  ASSERT_OK(RunPlugin("one"));
  exec_.FailEnds(absl::UnavailableError("the engine is away"));
  exec_.Processes().front().plugin->FailAlways("Probe", absl::InternalError("confused"));
  ASSERT_TRUE(WaitForEvent("failed", "could not be ended"));
  EXPECT_THAT(supervisor_->RunPlugin("one", Program("other"), "people", true, Soon()),
              FailsWith(Code::kUnavailable, "no other is started beside it"));
  EXPECT_THAT(exec_.Processes(), SizeIs(1));
  exec_.FailEnds(absl::OkStatus());
  ASSERT_NE(WaitForOther("one", ""), "");
  EXPECT_EQ(exec_.Alive(), 1);
  EXPECT_THAT(exec_.Processes(), SizeIs(2));
}

TEST_F(SupervisorStopTest, StopReportsAnInstanceThatCannotBeEnded) {
  settings_.end_again = seconds(60);
  RestartManager();
  ASSERT_OK(RunPlugin("one"));
  exec_.FailEnds(absl::UnavailableError("the engine is away"));
  const auto away = FailsWith(Code::kUnavailable, "the engine is away");
  EXPECT_THAT(supervisor_->StopPlugin("one", "", Soon()), away);
  EXPECT_THAT(supervisor_->StopPlugin("one", "", Soon()), away);
  EXPECT_THAT(RunPlugin("one"), FailsWith(Code::kUnavailable, "could not be ended yet"));
  exec_.FailEnds(absl::OkStatus());
  EXPECT_OK(supervisor_->StopPlugin("one", "", Soon()));
  EXPECT_EQ(exec_.Alive(), 0);
  EXPECT_THAT(supervisor_->StopPlugin("one", "", Soon()), FailsWith(Code::kNotFound, "no plugin 'one'"));
  EXPECT_OK(RunPlugin("one"));
}

TEST_F(SupervisorStopTest, RetriesAFailedEndByItself) {
  ASSERT_OK(RunPlugin("one"));
  exec_.FailEnds(absl::UnavailableError("the engine is away"));
  EXPECT_FALSE(supervisor_->StopPlugin("one", "", Soon()).ok());
  EXPECT_GE(exec_.WaitForEnds(13), 13) << "the pause does not grow";
  exec_.FailEnds(absl::OkStatus());
  EXPECT_TRUE(WaitForEvent("stopped"));
  EXPECT_EQ(exec_.Alive(), 0);
}

TEST_F(SupervisorStopTest, StopDeregistersBeforeItEndsTheProcess) {
  ASSERT_OK(RunPlugin("one"));
  const std::string directory = exec_.Processes().front().spec.socket_directory;
  bool registered = true;
  exec_.OnEnd([&](const auto&) { registered = Front("one") || Front("one", PluginType::kController); });
  ASSERT_OK(supervisor_->StopPlugin("one", "", Soon()));
  EXPECT_FALSE(registered);
  EXPECT_EQ(exec_.Alive(), 0);
  EXPECT_FALSE(fs::exists(directory));
  EXPECT_THAT(supervisor_->Declared(), IsEmpty());
  EXPECT_THAT(supervisor_->StopPlugin("one", "", Soon()), FailsWith(Code::kNotFound, "no plugin 'one'"));
}

TEST_F(SupervisorStopTest, StopsAHangingPluginAtOnce) {
  const auto plugin = NextPlugin();
  ASSERT_OK(RunPlugin("one"));
  HangInProbe(*plugin);
  const auto start = Clock::now();
  ASSERT_OK(supervisor_->StopPlugin("one", "", Soon()));
  EXPECT_LT(Clock::now() - start, settings_.watch.probe_time / 2);
}

TEST_F(SupervisorStopTest, LaunchEndedByAStopIsNotAFailure) {
  exec_.HangLaunches();
  ASSERT_OK(StartPlugin("one", "plugin"));
  ASSERT_TRUE(exec_.WaitForLaunches(1));
  EXPECT_OK(supervisor_->StopPlugin("one", "", Soon()));
  EXPECT_EQ(events_->last(), 0U) << "no event";
}

TEST_F(SupervisorStopTest, StopShortensAnEndThatIsUnderWay) {
  ASSERT_NO_FATAL_FAILURE(HangInEndOfOldInstance());
  const auto start = Clock::now();
  EXPECT_OK(supervisor_->StopPlugin("one", "", Clock::now()));
  EXPECT_LT(Clock::now() - start, seconds(30));
  EXPECT_EQ(exec_.Alive(), 0);
}

TEST_F(SupervisorStopTest, StopTriesAgainAfterAnEarlierTry) {
  ASSERT_NO_FATAL_FAILURE(HangInEndOfOldInstance());
  exec_.FailEnds(absl::UnavailableError("the engine is away"));
  EXPECT_THAT(supervisor_->StopPlugin("one", "", Clock::now()), FailsWith(Code::kUnavailable, "away"));
  EXPECT_GE(exec_.WaitForEnds(0), 3) << "the old one at least twice, the new one once";
}

TEST_F(SupervisorStopTest, ShutdownDoesNotWaitForAnEnd) {
  settings_.end_time = settings_.end_again = seconds(60);
  RestartManager();
  ASSERT_OK(RunPlugin("one"));
  const std::string directory = exec_.Processes().front().spec.socket_directory;
  exec_.HangEnds();
  auto stopped =
      std::async(std::launch::async, [&] { return supervisor_->StopPlugin("one", "", Clock::now() + seconds(60)); });
  ASSERT_EQ(exec_.WaitForEnds(1), 1);
  const auto start = Clock::now();
  supervisor_->Stop();
  EXPECT_LT(Clock::now() - start, settings_.end_time / 2);
  EXPECT_THAT(stopped.get(), FailsWith(Code::kUnavailable, "the manager is stopping"));
  EXPECT_EQ(exec_.Alive(), 1);
  EXPECT_TRUE(fs::exists(directory)) << "the next manager finds it";
}

TEST_F(SupervisorStopTest, NextManagerEndsWhatAnUpdateReplaced) {
  ASSERT_NO_FATAL_FAILURE(HangInEndOfOldInstance());
  const std::string new_one = Front("one")->instance_id;
  StopManager();
  EXPECT_EQ(exec_.Alive(), 2);
  exec_.HangEnds(false);
  StartManager();
  EXPECT_TRUE(WaitForEvent("stopped"));
  EXPECT_EQ(exec_.Alive(), 1);
  EXPECT_EQ(Front("one")->instance_id, new_one);
  EXPECT_TRUE(testing::WaitUntil([&] { return work_->List().empty(); }, seconds(20)));
}

TEST_F(SupervisorStopTest, StopReportsAnExceptionInAnEnd) {
  ASSERT_OK(RunPlugin("one"));
  exec_.OnEnd([](const auto&) { throw std::runtime_error("the engine's answer is odd"); });
  EXPECT_THAT(supervisor_->StopPlugin("one", "", Soon()), FailsWith(Code::kInternal, "answer is odd"));
  exec_.OnEnd(nullptr);
  EXPECT_OK(supervisor_->StopPlugin("one", "", Soon()));
  EXPECT_EQ(exec_.Alive(), 0);
}

TEST_F(SupervisorStopTest, RunsAsLongAsAnyDeclarerIsLeft) {
  ASSERT_OK(RunPlugin("one", "plugin", "job-a"));
  ASSERT_OK(RunPlugin("one", "plugin", "job-b"));
  RestartManager();
  ASSERT_THAT(supervisor_->Declared(), SizeIs(1));
  EXPECT_THAT(supervisor_->Declared().front().declared_by, ElementsAre("job-a", "job-b"));
  EXPECT_THAT(supervisor_->Declared().front().types, ElementsAre(PluginType::kNode, PluginType::kController));
  EXPECT_THAT(supervisor_->StopPlugin("one", "job-c", Soon()), FailsWith(Code::kNotFound, "job-c"));
  ASSERT_OK(supervisor_->StopPlugin("one", "job-a", Soon()));
  EXPECT_EQ(exec_.Alive(), 1);
  ASSERT_OK(supervisor_->StopPlugin("one", "job-b", Soon()));
  EXPECT_EQ(exec_.Alive(), 0);
}

TEST_F(SupervisorStopTest, KeepsTheServicesOfADeclaredPlugin) {
  ASSERT_OK(RunPlugin("one"));
  exec_.FailLaunches(absl::InvalidArgumentError("somebody removed it"));
  exec_.Kill(Front("one")->instance_id);
  ASSERT_TRUE(WaitForEvent("failed"));
  RestartManager();
  ASSERT_THAT(supervisor_->Declared(), SizeIs(1));
  EXPECT_THAT(supervisor_->Declared().front().types, Contains(PluginType::kNode));
}

TEST_F(SupervisorStopTest, AdoptsARunningPlugin) {
  ASSERT_OK(RunPlugin("one"));
  const std::string instance = Front("one")->instance_id;
  RestartManager();
  EXPECT_EQ(Front("one")->instance_id, instance);
  ASSERT_TRUE(WaitForEvent("adopted"));
  EXPECT_THAT(exec_.Processes(), SizeIs(1));
  EXPECT_EQ(exec_.Alive(), 1);
  ASSERT_OK(supervisor_->StopPlugin("one", "", Soon()));
  EXPECT_EQ(exec_.Alive(), 0);
}

TEST_F(SupervisorStopTest, AdoptsAStartingPlugin) {
  const auto plugin = NextPlugin(/*ready=*/false);
  ASSERT_OK(StartPlugin("slow", "plugin"));
  ASSERT_TRUE(plugin->WaitForCalls("Probe", 1));
  RestartManager();
  plugin->SetReady(true);
  ASSERT_NE(WaitForOther("slow", ""), "");
  EXPECT_THAT(exec_.Processes(), SizeIs(1));
}

TEST_F(SupervisorStopTest, ReplacesAPluginThatDiedWithoutAManager) {
  ASSERT_OK(RunPlugin("one"));
  const std::string instance = Front("one")->instance_id;
  StopManager();
  exec_.Kill(instance);
  StartManager();
  EXPECT_NE(WaitForOther("one", instance), "");
  EXPECT_THAT(Instances("one"), SizeIs(1));
  EXPECT_EQ(exec_.Alive(), 1);
}

TEST_F(SupervisorStopTest, DeregistersInstancesAfterAReboot) {
  ASSERT_OK(RunPlugin("one"));
  const std::string instance = Front("one")->instance_id;
  StopManager();
  exec_.Kill(instance);
  fs::remove_all(settings_.socket_root);  // as a reboot does with /run
  exec_.FailLaunches(absl::InvalidArgumentError("not yet"));
  StartManager();
  EXPECT_FALSE(Front("one"));
}

TEST_F(SupervisorStopTest, ContinuesAnUpdateAfterARestart) {
  ASSERT_OK(RunPlugin("one", "old"));
  const std::string old_one = Front("one")->instance_id;
  const auto plugin = NextPlugin(/*ready=*/false);
  ASSERT_OK(StartPlugin("one", "new"));
  ASSERT_TRUE(plugin->WaitForCalls("Probe", 1));
  RestartManager();
  EXPECT_EQ(Front("one")->instance_id, old_one);
  EXPECT_EQ(exec_.Alive(), 2);
  plugin->SetReady(true);
  EXPECT_NE(WaitForOther("one", old_one), "");
  ASSERT_TRUE(WaitForEvent("stopped"));
  EXPECT_EQ(exec_.Alive(), 1);
  EXPECT_THAT(exec_.Processes(), SizeIs(2));
}

TEST_F(SupervisorStopTest, WatchesTheNewInstanceWhileTheOldOneEnds) {
  ASSERT_OK(RunPlugin("one", "old"));
  std::promise<void> ends, may_end;
  exec_.OnEnd([&](const auto&) {
    ends.set_value();
    may_end.get_future().wait_until(Soon());
  });
  const auto plugin = NextPlugin();
  ASSERT_OK(RunPlugin("one", "new"));
  ASSERT_EQ(ends.get_future().wait_until(Soon()), std::future_status::ready);
  EXPECT_TRUE(plugin->WaitForCalls("Probe", plugin->Count("Probe") + 3));
  plugin->Fail("Probe", absl::InternalError("the disk is on fire"));
  EXPECT_TRUE(WaitForEvent("health", "the disk is on fire"));
  EXPECT_EQ(exec_.Alive(), 2);
  exec_.OnEnd(nullptr);
  may_end.set_value();
  EXPECT_TRUE(WaitForEvent("stopped"));
  EXPECT_EQ(exec_.Alive(), 1);
}

TEST_F(SupervisorStopTest, KeepsAnInstanceThatCannotBeInspected) {
  ASSERT_OK(RunPlugin("one"));
  const std::string instance = Front("one")->instance_id;
  StopManager();
  exec_.FailAdopts(absl::InternalError("too many open files"));
  StartManager();
  ASSERT_TRUE(WaitForEvent("failed", "too many open files"));
  EXPECT_THAT(RunPlugin("one"), FailsWith(Code::kUnavailable, "no other is started beside it"));
  EXPECT_EQ(Front("one")->instance_id, instance);
  EXPECT_THAT(exec_.Processes(), SizeIs(1));
  exec_.FailAdopts(absl::OkStatus());
  ASSERT_TRUE(WaitForEvent("adopted"));
  EXPECT_OK(RunPlugin("one"));
  EXPECT_EQ(Front("one")->instance_id, instance);
  EXPECT_THAT(exec_.Processes(), SizeIs(1));
  EXPECT_THAT(supervisor_->StatusText("one"), Not(HasSubstr("too many")));
}

TEST_F(SupervisorStopTest, EndsAnInstanceOnceItCanBeInspected) {
  ASSERT_OK(RunPlugin("one"));
  StopManager();
  exec_.FailAdopts(absl::InternalError("too many open files"));
  StartManager();
  ASSERT_TRUE(WaitForEvent("failed", "too many open files"));
  EXPECT_THAT(supervisor_->StopPlugin("one", "", Soon()), FailsWith(Code::kInternal, "too many open files"));
  EXPECT_EQ(exec_.Alive(), 1);
  exec_.FailAdopts(absl::OkStatus());
  ASSERT_TRUE(WaitForEvent("stopped"));
  EXPECT_EQ(exec_.Alive(), 0);
  EXPECT_FALSE(Front("one"));
}

TEST_F(SupervisorStopTest, SweepsTheUsedEnginesAtTheStart) {
  PluginRecord::Run run = Image("plugin:1");
  run.engine = "/run/engine.sock";
  ASSERT_OK(supervisor_->RunPlugin("boxed", run, "people", true, Soon()));
  container_.FailEnds(absl::InternalError("the engine is confused"));
  RestartManager();
  EXPECT_TRUE(container_.WaitForSweep("/run/engine.sock"));
  EXPECT_TRUE(WaitForEvent("failed", "the engine is confused"));
  EXPECT_TRUE(testing::WaitUntil([&] { return work_->List().empty(); }, seconds(20))) << "it is tried once";
}

TEST_F(SupervisorStopTest, EndsUndeclaredPluginsAtTheStart) {
  ASSERT_OK(RunPlugin("one"));
  StopManager();
  {  // killed after the record was deleted, before the process was ended
    const auto state = *manager::OpenSqliteState(directory_ / "state.db");
    manager::RecordsStore store(*state);
    ASSERT_OK(store.Commit(manager::Changes().Delete("host", store.ListPlugins("host")->at(0))));
  }
  StartManager();
  ASSERT_TRUE(WaitForEvent("stopped"));
  EXPECT_EQ(exec_.Alive(), 0);
  EXPECT_FALSE(Front("one"));
  EXPECT_TRUE(fs::is_empty(settings_.socket_root));
}

TEST_F(SupervisorStopTest, ShutdownLeavesAHangingPluginRunning) {
  const auto plugin = NextPlugin();
  ASSERT_OK(RunPlugin("one"));
  HangInProbe(*plugin);
  const auto start = Clock::now();
  supervisor_->Stop();
  EXPECT_LT(Clock::now() - start, settings_.watch.probe_time / 2);
  EXPECT_EQ(exec_.Alive(), 1);
  EXPECT_TRUE(Front("one"));
}

TEST_F(SupervisorStopTest, ShutdownDoesNotWaitForAnAdoptedHangingPlugin) {
  const auto plugin = NextPlugin();
  ASSERT_OK(RunPlugin("one"));
  RestartManager();
  HangInProbe(*plugin);
  const auto start = Clock::now();
  supervisor_->Stop();
  EXPECT_LT(Clock::now() - start, settings_.watch.probe_time / 2);
}

}  // namespace
}  // namespace mooring::testing
