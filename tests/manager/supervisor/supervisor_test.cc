#include "manager/supervisor/supervisor.h"

#include <sys/stat.h>

#include <functional>
#include <set>

#include "tests/manager/supervisor/supervisor_fixture.h"
#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

using manager::PluginRecord;

using SupervisorTest = SupervisorFixture;

TEST_F(SupervisorTest, LaunchesAProgramWithItsOwnSocketDirectory) {
  ASSERT_OK(RunPlugin("one"));
  ASSERT_OK(RunPlugin("two"));
  const auto processes = exec_.Processes();
  ASSERT_THAT(processes, SizeIs(2));
  EXPECT_NE(processes[0].spec.socket_directory, processes[1].spec.socket_directory);
  EXPECT_EQ(processes[0].spec.root, directory_ / "mounts");
  EXPECT_EQ(Front("one")->socket_path, processes[0].spec.socket_directory + "/csi.sock");
  EXPECT_EQ(Front("one", PluginType::kController)->socket_path, Front("one")->socket_path);
  struct stat of_directory = {};
  ASSERT_EQ(::stat(processes[0].spec.socket_directory.c_str(), &of_directory), 0);
  EXPECT_EQ(of_directory.st_mode & 0777, 0700U);
}

TEST_F(SupervisorTest, LaunchesAnImageAsAContainer) {
  PluginRecord::Run run = Image("plugin:1");
  ASSERT_OK(supervisor_->RunPlugin("boxed", run, "people", true, Soon()));
  EXPECT_THAT(exec_.Processes(), IsEmpty());
  ASSERT_THAT(container_.Processes(), SizeIs(1));
  EXPECT_EQ(Front("boxed")->provider, "container");
}

TEST_F(SupervisorTest, OtherBindsMakeANewGeneration) {
  PluginRecord::Run run = Image("plugin:1");
  run.binds = {{"/srv//state/", "/state", false, Propagation::kPrivate},
               {"/srv", settings_.root + "-of-others", false, Propagation::kShared},
               {directory_.path(), directory_.path(), false, Propagation::kSlave}};
  ASSERT_OK(supervisor_->RunPlugin("boxed", run, "people", true, Soon()));
  ASSERT_OK(supervisor_->RunPlugin("boxed", run, "people", true, Soon()));
  ASSERT_THAT(container_.Processes(), SizeIs(1));
  EXPECT_EQ(container_.Processes()[0].spec.run.binds[0].source, "/srv/state");
  run.binds[0].read_only = true;
  ASSERT_OK(supervisor_->RunPlugin("boxed", run, "people", true, Soon()));
  ASSERT_THAT(container_.Processes(), SizeIs(2));
  EXPECT_TRUE(container_.Processes()[1].spec.run.binds[0].read_only);
}

TEST_F(SupervisorTest, RefusesImpossibleBinds) {
  PluginRecord::Run run = Image("plugin:1");
  const auto refused = [&](std::vector<PluginRecord::Bind> binds, const std::string& message) {
    run.binds = std::move(binds);
    EXPECT_THAT(supervisor_->RunPlugin("boxed", run, "people", false, Soon()),
                FailsWith(Code::kInvalidArgument, message));
  };
  const auto plain = Propagation::kPrivate;
  refused({{"state", "/state", false, plain}}, "the host path");
  refused({{"/state", "state", false, plain}}, "the container path");
  refused({{"/a/../b", "/state", false, plain}}, "the host path");
  refused({{"/a", "/", false, plain}}, "the container path");
  refused({{"/a:b", "/state", false, plain}}, "as separators");
  refused({{"/a", "/state,b", false, plain}}, "as separators");
  refused({{"/a", "/dev/", false, plain}}, "'/dev'");
  refused({{"/a", settings_.root, false, plain}}, "the manager binds");
  refused({{"/a", settings_.root + "/y", false, plain}}, "the manager binds");
  refused({{"/a", "/b", true, Propagation::kShared}}, "write access");
  for (const std::string& above : {directory_.path(), settings_.socket_root}) {
    refused({{"/a", above, false, Propagation::kShared}}, "would appear on the host too");
  }
  refused({{"/a", "/b", false, plain}, {"/c", "/b/", false, plain}}, "two binds are at '/b'");
  run.kind = PluginRecord::Run::Kind::kExec;
  run.command = {"plugin"};
  refused({{"/a", "/b", false, plain}}, "binds are for containers");
  EXPECT_THAT(supervisor_->Declared(), IsEmpty());
}

TEST_F(SupervisorTest, RefusesAnInvalidRun) {
  using std::string_literals::operator""s;
  const auto refused = [&](const std::function<void(PluginRecord::Run&)>& spoil, const std::string& message) {
    PluginRecord::Run run = Program("plugin");
    spoil(run);
    EXPECT_THAT(supervisor_->RunPlugin("one", run, "people", false, Soon()),
                FailsWith(Code::kInvalidArgument, message));
  };
  refused([](auto& run) { run.command.clear(); }, "command");
  refused([](auto& run) { run.kind = PluginRecord::Run::Kind::kContainer; }, "image");
  refused([](auto& run) { run.start_deadline = seconds(0); }, "start deadline");
  refused([](auto& run) { run.start_deadline = hours(25); }, "start deadline");
  refused([](auto& run) { run.command.push_back("a\0b"s); }, "NUL");
  refused([](auto& run) { run.environment[""] = "x"; }, "environment");
  refused([](auto& run) { run.environment["A=B"] = "x"; }, "environment");
  refused([](auto& run) { run.environment["A\0"s] = "x"; }, "environment");
  refused([](auto& run) { run.environment["A"] = "x\0"s; }, "NUL");
  refused([](auto& run) { run.environment["CSI_ENDPOINT"] = "unix:///x"; }, "CSI_ENDPOINT");
  EXPECT_THAT(supervisor_->RunPlugin("", Program("plugin"), "people", false, Soon()),
              FailsWith(Code::kInvalidArgument, "name"));
  EXPECT_THAT(supervisor_->RunPlugin("one", Program("plugin"), "a\nb", false, Soon()),
              FailsWith(Code::kInvalidArgument, "declared-by"));
  EXPECT_THAT(supervisor_->Declared(), IsEmpty());
}

TEST_F(SupervisorTest, LeavesForeignFilesBelowTheSocketRoot) {
  StopManager();
  const std::string& root = settings_.socket_root;
  for (const char* name : {"/theirs", "/theirs-0123abcd", "/half-0123abcd", "/odd-0123abcd"}) {
    fs::create_directories(root + name);
  }
  for (const char* name : {"/theirs/log", "/theirs-0123abcd/data", "/half-0123abcd/log"}) {
    std::ofstream(root + name) << "x";
  }
  std::ofstream(root + "/odd-0123abcd/instance") << R"({"plugin":7,"generation":"x","kind":[],"engine":{}})";
  StartManager();
  EXPECT_TRUE(fs::exists(root + "/theirs/log"));
  EXPECT_TRUE(fs::exists(root + "/theirs-0123abcd/data"));
  EXPECT_FALSE(fs::exists(root + "/half-0123abcd"));
  EXPECT_TRUE(fs::exists(root + "/odd-0123abcd/instance"));
}

TEST_F(SupervisorTest, KeepsADirectoryWithAnUnreadableNote) {
  StopManager();
  const std::string directory = settings_.socket_root + "/one-0123abcd";
  fs::create_directories(directory);
  fs::create_symlink("instance", directory + "/instance");  // to itself
  std::ofstream(directory + "/log") << "x";
  EXPECT_THAT(manager::FindInstanceDirectories(settings_.socket_root).status(),
              FailsWith(Code::kFailedPrecondition, directory + "/instance"));
  EXPECT_TRUE(fs::exists(directory + "/log"));
}

TEST_F(SupervisorTest, HostileNamesGetSeparateDirectories) {
  std::set<std::string> directories;
  const std::vector<std::string> names = {
      "../x", "a/b", "a%2Fb", "[0]", "a b", "ünïcode", std::string(255, 'n'), std::string(254, 'n') + "m"};
  for (const std::string& name : names) {
    ASSERT_OK(RunPlugin(name));
    const fs::path directory = exec_.Processes().back().spec.socket_directory;
    EXPECT_EQ(directory.parent_path(), directory_ / "plugins") << name;
    EXPECT_TRUE(directories.insert(directory).second) << name;
  }
}

TEST_F(SupervisorTest, RegistersAnEndpointUnderThePluginsName) {
  const std::string socket = directory_ / "csi.sock";
  EXPECT_THAT(supervisor_->RegisterEndpoint("", socket, "people", false, Soon()).status(),
              FailsWith(Code::kUnavailable, "ask the plugin at"));
  FakeCsiFeatures features;
  features.controller = false;
  sockets_.Serve(socket, std::make_shared<FakeCsiPlugin>(features));
  const auto name = supervisor_->RegisterEndpoint("", "unix://" + socket, "people", true, Soon());
  ASSERT_OK(name);
  EXPECT_EQ(*name, "fake.csi");
  EXPECT_EQ(Front("fake.csi")->socket_path, socket);
  EXPECT_FALSE(Front("fake.csi", PluginType::kController));
  EXPECT_THAT(exec_.Processes(), IsEmpty());
}

TEST_F(SupervisorTest, RegistersAnEndpointOnceItAnswers) {
  const std::string socket = directory_ / "csi.sock";
  ASSERT_OK(supervisor_->RegisterEndpoint("late", socket, "people", false, Soon()));
  ASSERT_TRUE(WaitForEvent("waiting"));
  EXPECT_FALSE(Front("late"));
  sockets_.Serve(socket, std::make_shared<FakeCsiPlugin>());
  EXPECT_NE(WaitForOther("late", ""), "");
}

TEST_F(SupervisorTest, AnotherEndpointReplacesTheOldOne) {
  settings_.watch.probe_time = seconds(1);
  RestartManager();
  const auto old_plugin = std::make_shared<FakeCsiPlugin>();
  sockets_.Serve(directory_ / "old.sock", old_plugin);
  ASSERT_OK(supervisor_->RegisterEndpoint("fake", directory_ / "old.sock", "people", true, Soon()));
  HangInProbe(*old_plugin);
  sockets_.Serve(directory_ / "new.sock", std::make_shared<FakeCsiPlugin>());
  ASSERT_OK(supervisor_->RegisterEndpoint("fake", directory_ / "new.sock", "people", true, Soon()));
  EXPECT_EQ(Front("fake")->socket_path, directory_ / "new.sock");
  old_plugin->Release();
}

TEST_F(SupervisorTest, RegistersOnlyAfterASuccessfulProbe) {
  const auto plugin = NextPlugin(/*ready=*/false);
  ASSERT_OK(StartPlugin("slow", "plugin"));
  ASSERT_TRUE(plugin->WaitForCalls("Probe", 3));
  EXPECT_FALSE(Front("slow"));
  EXPECT_THAT(supervisor_->StatusText("slow"), HasSubstr("starting for"));
  plugin->SetReady(true);
  ASSERT_NE(WaitForOther("slow", ""), "");
  EXPECT_THAT(exec_.Processes(), SizeIs(1));
}

TEST_F(SupervisorTest, ReportsPeriodicallyWhyAPluginIsNotReady) {
  const auto plugin = NextPlugin(/*ready=*/false);
  ASSERT_OK(StartPlugin("slow", "plugin"));
  const auto first = WaitForEvent("waiting", "not ready");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->plugin, "slow");
  EXPECT_TRUE(WaitForEvent([&](const auto& event) { return event.kind == "waiting" && event.number > first->number; }));
}

TEST_F(SupervisorTest, RestartsAfterTheStartDeadline) {
  LaunchOnlyPluginsThatAreNotReady();
  PluginRecord::Run run = Program("plugin");
  run.start_deadline = seconds(1);
  EXPECT_THAT(supervisor_->RunPlugin("never", run, "people", true, Soon()),
              FailsWith(Code::kUnavailable, "it was not ready within"));
  EXPECT_FALSE(Front("never"));
  const std::string first = exec_.Processes().front().spec.instance_id;
  ASSERT_TRUE(WaitForEvent([&](const auto& event) { return event.kind == "starting" && event.instance != first; }));
  EXPECT_LE(exec_.Alive(), 1);
  EXPECT_GT(exec_.Processes().size(), 1U);
}

TEST_F(SupervisorTest, HealthEventsHaveThePluginsMessage) {
  const auto plugin = NextPlugin();
  ASSERT_OK(RunPlugin("one"));
  plugin->Fail("Probe", absl::InternalError("the disk is on fire"));
  const auto sick = WaitForEvent("health", "the disk is on fire");
  ASSERT_TRUE(sick);
  EXPECT_TRUE(sick->bad);
  EXPECT_EQ(sick->instance, Front("one")->instance_id);
  EXPECT_TRUE(WaitForEvent("health", "instance is healthy"));
  EXPECT_THAT(exec_.Processes(), SizeIs(1));
}

TEST_F(SupervisorTest, RestartsADeadPluginWithBackOff) {
  LaunchOnlyPluginsThatAreNotReady();
  ASSERT_OK(StartPlugin("mortal", "plugin"));
  for (std::size_t deaths = 1; deaths <= 5; ++deaths) {
    ASSERT_TRUE(WaitForEvent([&](const auto& event) {
      return event.kind == "starting" && event.instance == exec_.Processes().back().spec.instance_id &&
             exec_.Processes().size() == deaths;
    }));
    exec_.Kill(exec_.Processes().back().spec.instance_id);
  }
  const auto processes = exec_.Processes();
  const auto pause = [&](std::size_t i) { return processes[i].launched_at - processes[i - 1].launched_at; };
  EXPECT_GE(pause(1), milliseconds(20));
  EXPECT_GE(pause(2), milliseconds(40));
  EXPECT_GE(pause(3), milliseconds(80));
  EXPECT_GE(pause(4), milliseconds(80));
  EXPECT_TRUE(WaitForEvent("failed", "out of luck"));
  EXPECT_THAT(supervisor_->StatusText("mortal"), HasSubstr("restarted"));
}

TEST_F(SupervisorTest, DeregistersADeadPlugin) {
  ASSERT_OK(RunPlugin("one"));
  const std::string before = Front("one")->instance_id;
  exec_.Kill(before);
  EXPECT_NE(WaitForOther("one", before), "");
  EXPECT_THAT(Instances("one"), SizeIs(1));
  EXPECT_FALSE(fs::exists(settings_.socket_root + "/" + before));
}

TEST_F(SupervisorTest, RestartsAPluginThatIsSickForTooLong) {
  ASSERT_OK(RunPlugin("one"));
  const auto sick = exec_.Processes().front();
  sick.plugin->FailAlways("Probe", absl::InternalError("confused"));
  EXPECT_NE(WaitForOther("one", sick.spec.instance_id), "");
  EXPECT_TRUE(WaitForEvent("ended", "confused"));
  EXPECT_EQ(exec_.Alive(), 1);
}

TEST_F(SupervisorTest, RestartsAPluginThatHangs) {
  settings_.watch.probe_time = milliseconds(50);
  RestartManager();
  ASSERT_OK(RunPlugin("one"));
  const auto hung = exec_.Processes().front();
  hung.plugin->Hang("Probe");
  EXPECT_NE(WaitForOther("one", hung.spec.instance_id), "");
}

TEST_F(SupervisorTest, UpdateKeepsTheOldInstanceUntilTheNewOneIsReady) {
  ASSERT_OK(RunPlugin("one", "old"));
  const auto old_one = exec_.Processes().front();
  const auto plugin = NextPlugin(/*ready=*/false);
  std::string front_at_the_end;
  exec_.OnEnd([&](const auto&) { front_at_the_end = Front("one")->instance_id; });

  ASSERT_OK(StartPlugin("one", "new"));
  ASSERT_TRUE(plugin->WaitForCalls("Probe", 3));
  EXPECT_EQ(exec_.Alive(), 2);
  EXPECT_EQ(Front("one")->instance_id, old_one.spec.instance_id);

  plugin->SetReady(true);
  const std::string successor = WaitForOther("one", old_one.spec.instance_id);
  ASSERT_TRUE(WaitForEvent("stopped"));
  EXPECT_EQ(front_at_the_end, successor);
  EXPECT_EQ(exec_.Alive(), 1);
  EXPECT_EQ(exec_.Processes().back().spec.run.command, std::vector<std::string>{"new"});
  EXPECT_NE(exec_.Processes().back().spec.socket_directory, old_one.spec.socket_directory);
  EXPECT_THAT(Instances("one"), SizeIs(1));
}

TEST_F(SupervisorTest, FailedUpdateLeavesTheOldInstanceServing) {
  ASSERT_OK(RunPlugin("one", "old"));
  const std::string old_one = Front("one")->instance_id;
  exec_.FailLaunches(absl::InvalidArgumentError("there is no such program"));
  EXPECT_THAT(RunPlugin("one", "nonsense"), FailsWith(Code::kUnavailable, "there is no such program"));
  EXPECT_EQ(Front("one")->instance_id, old_one);
  EXPECT_EQ(exec_.Alive(), 1);
  EXPECT_THAT(supervisor_->StatusText("one"), AllOf(HasSubstr("runs as"), HasSubstr("there is no such program")));
  exec_.FailLaunches(absl::OkStatus());
  EXPECT_OK(RunPlugin("one", "better"));
  EXPECT_TRUE(testing::WaitUntil([&] { return exec_.Alive() == 1; }, seconds(20)));
  EXPECT_NE(Front("one")->instance_id, old_one);
}

TEST_F(SupervisorTest, FailingUpdateDoesNotChangeTheProbeInterval) {
  settings_.first_backoff = settings_.longest_backoff = seconds(60);
  RestartManager();
  const auto plugin = NextPlugin();
  ASSERT_OK(RunPlugin("one", "old"));
  exec_.FailLaunches(absl::InvalidArgumentError("there is no such program"));
  EXPECT_FALSE(RunPlugin("one", "nonsense").ok());
  EXPECT_TRUE(plugin->WaitForCalls("Probe", plugin->Count("Probe") + 3));
  plugin->Fail("Probe", absl::InternalError("the disk is on fire"));
  EXPECT_TRUE(WaitForEvent("health", "the disk is on fire"));
}

TEST_F(SupervisorTest, ProbesTheOldInstanceDuringAnUpdate) {
  const auto old_plugin = NextPlugin();
  ASSERT_OK(RunPlugin("one", "old"));
  LaunchOnlyPluginsThatAreNotReady();
  ASSERT_OK(StartPlugin("one", "new"));
  ASSERT_TRUE(WaitForEvent("waiting"));
  EXPECT_TRUE(old_plugin->WaitForCalls("Probe", old_plugin->Count("Probe") + 3));
}

// An engine may pull an image for minutes.
TEST_F(SupervisorTest, ProbesTheOldInstanceWhileTheNewOneIsLaunched) {
  const auto plugin = NextPlugin();
  ASSERT_OK(RunPlugin("one", "old"));
  exec_.HangLaunches();
  ASSERT_OK(StartPlugin("one", "new"));
  ASSERT_TRUE(exec_.WaitForLaunches(2));
  EXPECT_TRUE(plugin->WaitForCalls("Probe", plugin->Count("Probe") + 3));
}

TEST_F(SupervisorTest, ProbesAnInstanceThatCannotBeAdopted) {
  const auto plugin = NextPlugin();
  ASSERT_OK(RunPlugin("one"));
  StopManager();
  exec_.FailAdopts(absl::InternalError("too many open files"));
  StartManager();
  EXPECT_TRUE(plugin->WaitForCalls("Probe", plugin->Count("Probe") + 3));
}

TEST_F(SupervisorTest, RunAfterAnEndpointIsANewGeneration) {
  ASSERT_OK(RunPlugin("one", "first"));
  sockets_.Serve(directory_ / "csi.sock", std::make_shared<FakeCsiPlugin>());
  ASSERT_OK(supervisor_->RegisterEndpoint("one", directory_ / "csi.sock", "people", true, Soon()));
  const std::string endpoint = Front("one")->instance_id;
  ASSERT_TRUE(WaitForEvent("stopped"));
  ASSERT_OK(RunPlugin("one", "second"));
  EXPECT_NE(Front("one")->instance_id, endpoint);
  const auto processes = exec_.Processes();
  ASSERT_THAT(processes, SizeIs(2));
  EXPECT_GT(processes[1].spec.run.generation, processes[0].spec.run.generation);
}

}  // namespace
}  // namespace mooring::testing
