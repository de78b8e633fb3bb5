// The plugin and its mount helper: the helper is killed, has no spawner, or is missing. --mounter and --mount-root.
#include "tests/rpc/support/helper_processes.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class HelperTest : public RpcTest {
 protected:
  pid_t Helper() { return HelperOf(plugin().pid()); }
  pid_t Spawner() { return SpawnerOf(plugin().pid()); }

  void StageAndPublish() {
    volume_ = Created(kSharedMount);
    ASSERT_OK(driver().Stage(volume_, Staging("v"), kSharedMount));
    ASSERT_OK(driver().Publish(volume_, Staging("v"), Target("a"), kSharedMount));
    ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  }

  // The output and exit status of a copy of the plugin in another directory.
  static std::string RunCopyIn(const std::string& path) {
    fs::copy_file(MOORING_PLUGIN_BINARY, path + "/mooring-plugin");
    return RunOutput(path + "/mooring-plugin --endpoint " + path + "/csi.sock --state-dir " + path +
                     "/state 2>&1; echo status $?");
  }

  std::string volume_;
};

TEST_F(HelperTest, IsTheDefaultAndHasProcessNames) {
  const pid_t spawner = Spawner(), helper = Helper();
  ASSERT_GT(spawner, 0);
  ASSERT_GT(helper, 0);
  EXPECT_EQ(ChildrenOf(plugin().pid()).size(), 1U);
  EXPECT_EQ(ChildrenOf(spawner).size(), 1U);
  EXPECT_EQ(ChildrenOf(helper).size(), 0U);
}

TEST_F(HelperTest, KilledHelperIsReplacedAndMountsStay) {
  StageAndPublish();
  const std::string mounts = RawMounts();
  const pid_t helper = Helper(), spawner = Spawner();
  ASSERT_EQ(::kill(spawner, SIGSTOP), 0);  // so that no other helper starts yet
  ASSERT_EQ(::kill(helper, SIGKILL), 0);
  EXPECT_TRUE(Eventually([this] { return !Probe().status.ok(); }));
  EXPECT_THAT(Probe(),
              FailsWith(Code::kFailedPrecondition, "the mount helper (process " + std::to_string(helper) + ")"));
  EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, "all mounts stay"));
  EXPECT_EQ(RawMounts(), mounts);
  EXPECT_EQ(ReadFile(Target("a") + "/file"), "data");
  EXPECT_EQ(TryWrite(Target("a") + "/file", "more"), 0);
  ASSERT_EQ(::kill(spawner, SIGCONT), 0);
  EXPECT_TRUE(Eventually([this] { return Probe().status.ok(); }));
  EXPECT_NE(Helper(), helper);
  EXPECT_OK(driver().Publish(volume_, Staging("v"), Target("b"), kSharedMount));
  EXPECT_OK(driver().Stats(volume_, Target("a")));
  EXPECT_TRUE(Eventually([&] { return ChildrenOf(spawner).size() == 1; })) << "zombies";
  EXPECT_THAT(plugin().Log(), HasSubstr("killed by signal 9"));
}

TEST_F(HelperTest, CallWaitsForTheNextHelper) {
  StageAndPublish();
  const pid_t spawner = Spawner();
  ASSERT_EQ(::kill(spawner, SIGSTOP), 0);
  ASSERT_EQ(::kill(Helper(), SIGKILL), 0);
  std::thread later([spawner] {
    std::this_thread::sleep_for(milliseconds(300));
    ::kill(spawner, SIGCONT);
  });
  EXPECT_OK(driver().Publish(volume_, Staging("v"), Target("b"), kSharedMount));
  later.join();
}

TEST_F(HelperTest, KilledDuringPublishesLeavesNoStackedMount) {
  constexpr int kClients = 8, kTargets = 10, kKills = 6;
  volume_ = Created(kSharedMount);
  ASSERT_OK(driver().Stage(volume_, Staging("v"), kSharedMount));
  std::vector<std::vector<std::string>> targets(kClients);
  for (int client = 0; client < kClients; ++client) {
    for (int i = 0; i < kTargets; ++i) targets[client].push_back(Target(std::to_string(client * kTargets + i)));
  }
  std::atomic<int> retries{0}, done{0};
  std::vector<std::thread> threads;
  for (int client = 0; client < kClients; ++client) {
    threads.emplace_back([&, client] {
      Driver own(dir() / "csi.sock");
      for (const std::string& target : targets[client]) {
        const auto deadline = Clock::now() + std::chrono::seconds(60);
        for (absl::Status status = Internal(""); !status.ok(); ++retries) {
          status = own.Publish(volume_, Staging("v"), target, kSharedMount).status;
          EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
          ASSERT_LT(Clock::now(), deadline);
        }
        ++done;
        std::this_thread::sleep_for(milliseconds(5));
      }
    });
  }
  int kills = 0;
  for (pid_t last = -1; kills < kKills;) {
    const pid_t helper = Helper();
    if (helper > 0 && helper != last && ::kill(helper, SIGKILL) == 0) {
      last = helper;
      ++kills;
    }
    std::this_thread::sleep_for(milliseconds(3));
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : targets) {
    for (const std::string& target : mine) EXPECT_EQ(MountsAt(target).size(), 1U) << target;
  }
  EXPECT_EQ(LoopsHere().size(), 1U);
  EXPECT_EQ(MountsBelow(dir().path()).size(), 1U + kClients * kTargets);
  for (const auto& mine : targets) {
    for (const std::string& target : mine) EXPECT_OK(driver().Unpublish(volume_, target));
  }
}

TEST_F(HelperTest, PluginEndsWithoutItsSpawner) {
  StageAndPublish();
  const pid_t helper = Helper(), spawner = Spawner();
  ASSERT_EQ(::kill(spawner, SIGKILL), 0);
  driver().Disconnect();
  EXPECT_EQ(plugin().Wait(), 1);
  EXPECT_THAT(plugin().Log(), HasSubstr("the mount helper cannot be replaced"));
  EXPECT_THAT(plugin().Log(), HasSubstr("restart the plugin"));
  EXPECT_TRUE(Eventually([helper] { return !Runs(helper); }));
  EXPECT_EQ(ReadFile(Target("a") + "/file"), "data");
  Start();
  EXPECT_OK(driver().Publish(volume_, Staging("v"), Target("b"), kSharedMount));
}

TEST_F(HelperTest, EndsWithItsPlugin) {
  for (const int signal : {SIGTERM, SIGKILL, SIGINT}) {
    StageAndPublish();
    const pid_t helper = Helper(), spawner = Spawner();
    ASSERT_GT(helper, 0);
    Restart(signal);
    EXPECT_TRUE(Eventually([&] { return !Runs(helper) && !Runs(spawner); })) << signal;
    EXPECT_OK(driver().Unpublish(volume_, Target("a")));
    EXPECT_OK(driver().Unstage(volume_, Staging("v")));
  }
}

TEST_F(HelperTest, StoppedSpawnerDoesNotDelayTheEndOfThePlugin) {
  const pid_t spawner = Spawner();
  ASSERT_EQ(::kill(spawner, SIGSTOP), 0);
  ASSERT_EQ(::kill(Helper(), SIGKILL), 0);
  EXPECT_TRUE(Eventually([this] { return !Probe().status.ok(); }));
  std::this_thread::sleep_for(milliseconds(200));  // until the plugin has asked for the next helper
  driver().Disconnect();
  const auto start = Clock::now();
  EXPECT_EQ(plugin().Terminate(), 0);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  ASSERT_EQ(::kill(spawner, SIGCONT), 0);
  EXPECT_TRUE(Eventually([spawner] { return !Runs(spawner); }));
}

TEST_F(HelperTest, InProcessMounterKeepsThePrivileges) {
  const std::string here = StatusField(::getpid(), "CapEff");
  RestartWith({"--mounter=in-process"});
  EXPECT_TRUE(ChildrenOf(plugin().pid()).empty());
  EXPECT_EQ(StatusField(plugin().pid(), "CapEff"), here);
  EXPECT_EQ(StatusField(plugin().pid(), "Seccomp"), "0");
  StageAndPublish();
  EXPECT_OK(driver().Publish(volume_, Staging("v"), Target("b"), kSharedMount, true));
  EXPECT_OK(driver().Stats(volume_, Target("b")));
}

class MountRoots : public HelperTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    HelperTest::SetUp();
    Staging("v");
    RestartWith({GetParam(), "--mount-root", dir() / "csi"});
  }
};

TEST_P(MountRoots, CallsBelowTheMountRootWork) {
  StageAndPublish();
  EXPECT_OK(driver().Publish(volume_, Staging("v"), Target("ro"), kSharedMount, true));
  EXPECT_OK(driver().Stats(volume_, Target("a")));
  const std::string block = Created(kSharedBlock);
  EXPECT_OK(driver().Stage(block, Staging("block"), kSharedBlock));
  EXPECT_OK(driver().Publish(block, Staging("block"), Target("ro", "b"), kSharedBlock, true));
  EXPECT_OK(driver().Unpublish(block, Target("ro", "b")));
  EXPECT_OK(driver().Publish(block, Staging("block"), Target("rw", "b"), kSharedBlock));
  EXPECT_OK(driver().Stats(block, Target("rw", "b")));
  Restart(SIGKILL);
  EXPECT_OK(driver().Publish(block, Staging("block"), Target("rw", "b"), kSharedBlock));
}

TEST_P(MountRoots, CallsOutsideTheMountRootAreRefused) {
  StageAndPublish();
  constexpr char kReason[] = "lies below none of the directories that the plugin was started for";
  const std::string outside = MakeDirectories("csi-other");
  const std::string other = Created();
  for (const std::string& path : {outside + "/t", dir() / "t"}) {
    ExpectRefused(PublishRequest(volume_, Staging("v"), path, kSharedMount), Code::kFailedPrecondition, kReason);
  }
  ExpectRefused(StageRequest(other, outside, Mount()), Code::kFailedPrecondition, kReason);
}

INSTANTIATE_TEST_SUITE_P(Both, MountRoots, ::testing::Values("--mounter=helper", "--mounter=in-process"),
                         [](const auto& kind) {
                           return std::string(kind.param) == "--mounter=helper" ? "Helper" : "InProcess";
                         });

TEST_F(HelperTest, MissingProgramStopsTheStart) {
  if (fs::exists("/usr/libexec/mooring/mooring-mounter")) GTEST_SKIP() << "mooring is installed here";
  const std::string alone = MakeDirectories("alone");
  const std::string said = RunCopyIn(alone);
  EXPECT_THAT(said, HasSubstr("mooring-mounter is neither beside " + alone + "/mooring-plugin nor in"));
  EXPECT_THAT(said, HasSubstr("install it there, or use --mounter=in-process"));
  EXPECT_THAT(said, HasSubstr("status 1\n"));
  EXPECT_FALSE(fs::exists(alone + "/csi.sock"));
}

TEST_F(HelperTest, WrongProgramStopsTheStart) {
  const std::string alone = MakeDirectories("alone");
  std::ofstream(alone + "/mooring-mounter") << "#!/bin/sh\nexit 3\n";
  fs::permissions(alone + "/mooring-mounter", fs::perms::owner_all);
  const std::string said = RunCopyIn(alone);
  EXPECT_THAT(said, HasSubstr("the spawner of the mount helper (process "));
  EXPECT_THAT(said, HasSubstr("status 1\n"));
}

TEST_F(HelperTest, StartedByHandNamesTheRightCommand) {
  const std::string program = fs::path(MOORING_PLUGIN_BINARY).parent_path() / "mooring-mounter";
  for (const char* arguments : {"", " mount /a /b", " --mount-root / --label-prefix mooring"}) {
    const std::string said = RunOutput(program + arguments + " 2>&1 3<&-; echo status $?");
    EXPECT_THAT(said, HasSubstr("started by mooring-plugin")) << arguments;
    EXPECT_THAT(said, HasSubstr("use: mooring mount")) << arguments;
    EXPECT_THAT(said, HasSubstr("status 1\n")) << arguments;
  }
  EXPECT_THAT(RunOutput(program + " --version; echo status $?"), MatchesRegex("mooring-mounter .+\nstatus 0\n"));
}

}  // namespace
}  // namespace mooring::testing
