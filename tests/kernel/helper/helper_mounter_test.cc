// The mount helper as a separate process: it works like KernelMounter, has minimal privileges, is replaced when it is
// killed, and ends with its plugin.
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>

#include "base/deadline.h"
#include "mounter/helper/channel.h"
#include "tests/kernel/helper/helper_test.h"
#include "tests/support/user_namespace_task.h"

namespace mooring::testing {
namespace {

class HelperMounterTest : public HelperTest {
 protected:
  void Stage() {
    Ext4Image("volumes/a.img");
    ASSERT_OK(helper().Mount(MountOfImage("a.img", "staged")));
  }

  // Stops the helper, so that a call sent to it gets no answer.
  pid_t StopHelper() {
    const pid_t pid = helper().pid();
    EXPECT_EQ(::kill(pid, SIGSTOP), 0);
    EXPECT_TRUE(Eventually([pid] { return Stopped(pid); }));
    return pid;
  }

  void KillInTheMiddle(const std::function<void()>& call) {
    const pid_t pid = StopHelper();
    std::thread caller(call);
    std::this_thread::sleep_for(milliseconds(200));
    KillHelper();
    caller.join();
    EXPECT_TRUE(AwaitNext(pid));
  }
};

TEST_F(HelperMounterTest, MountCallsWorkAsWithTheKernelMounter) {
  const std::string image = Sparse("volumes/a.img", 32 * kMiB);
  EXPECT_EQ(helper().Probe(image)->content, FilesystemInfo::Content::kEmpty);
  ASSERT_OK(helper().Format({image, "ext4"}));
  EXPECT_EQ(helper().Probe(image)->type, "ext4");
  ASSERT_OK(helper().Check(image, "ext4"));
  std::filesystem::resize_file(image, 48 * kMiB);
  ASSERT_OK(helper().Grow(image, "ext4"));
  EXPECT_EQ(helper().Probe(image)->size_bytes, mounter_.Probe(image)->size_bytes);
  MountRequest mount = MountOfImage("a.img", "staged");
  mount.options = {{"commit", "30"}};
  mount.group = 1234;
  mount.flags.noexec = true;
  mount.propagation = Propagation::kShared;
  ASSERT_OK(helper().Mount(mount));
  EXPECT_EQ(OptionsAt(Target("staged")), "rw,noexec,relatime");
  EXPECT_TRUE(MountAt(Target("staged"))->SuperHas("commit=30"));
  EXPECT_NE(GroupAt(Target("staged"), "shared:"), "");
  EXPECT_EQ(StatOf(Target("staged")).st_gid, 1234U);
  EXPECT_EQ(StatOf(Target("staged")).st_mode & 07777U, 02775U);

  const absl::StatusOr<PathInfo> found = helper().Find(Target("staged"));
  const absl::StatusOr<PathInfo> wanted = mounter_.Find(Target("staged"));
  ASSERT_OK(found);
  EXPECT_EQ(found->mount->id, wanted->mount->id);
  EXPECT_EQ(helper().List(Target("staged"))->front().peer_group, mounter_.List(Target("staged"))->front().peer_group);
  EXPECT_EQ(found->loop->label, "mooring:test");
  EXPECT_EQ(found->loop->backing_inode, StatOf(image).st_ino);
  EXPECT_EQ(helper().Stats(Target("staged"))->bytes.total, mounter_.Stats(Target("staged"))->bytes.total);
  EXPECT_EQ(helper().List("/")->size(), mounter_.List("/")->size());
  EXPECT_EQ(*helper().HealthProblem(Target("staged")), "");

  ASSERT_OK(helper().Bind(BindOf(Target("staged"), Target("published"), ReadOnly())));
  EXPECT_EQ(OptionsAt(Target("published")), "ro,relatime");
  EXPECT_EQ(helper().List(Target("published"))->size(), 1U);
  for (const char* name : {"published", "staged", "nothing"})
    EXPECT_OK(helper().Unmount(UnmountOf(Target(name), true)));
  EXPECT_TRUE(Entries(Path("csi")).empty());
  EXPECT_TRUE(NoLoopOver(image));
}

// The helper makes the user namespace itself, with few capabilities and under its filter. Its threads do so at once.
TEST_F(HelperMounterTest, ATaskInAUserNamespaceOwnsItsVolume) {
  Stage();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      BindRequest bind = BindOf(Target("staged"), Target(fmt::format("task{}", i)));
      bind.idmap = kIdMapOfTask;
      EXPECT_OK(helper().Bind(bind));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(WriteAsTask(Target(fmt::format("task{}", i))), 0);
  EXPECT_EQ(OwnerAt(Target("staged/file")), "0:0");
  EXPECT_EQ(WriteAsTask(Target("staged")), 2);
  EXPECT_EQ(Tool(fmt::format("pgrep -P {}", helper().pid())), 1) << "a process of a user namespace is left";
  MountRequest memory;
  memory.source = "mooring:memory";
  memory.fs_type = "tmpfs";
  memory.target = Target("memory");
  memory.options = {{"size", "1048576"}};
  memory.idmap = kIdMapOfTask;
  EXPECT_OK(mounter_.Mount(memory));
  EXPECT_EQ(WriteAsTask(Target("memory")), 0);
}

TEST_F(HelperMounterTest, LoopCallsWorkAsWithTheKernelMounter) {
  const std::string image = Sparse("volumes/b.img", 16 * kMiB);
  const absl::StatusOr<LoopInfo> loop = helper().AttachLoop({image, "mooring:b", false});
  ASSERT_OK(loop);
  EXPECT_EQ(mounter_.FindLoops(image)->size(), 1U);
  EXPECT_EQ(helper().FindLoops(image)->at(0).device, loop->device);
  std::filesystem::resize_file(image, 20 * kMiB);
  ASSERT_OK(helper().ResizeLoop(*loop));
  EXPECT_EQ(helper().Stats(loop->device)->bytes.total, 20 * kMiB);
  const absl::StatusOr<LoopInfo> upper = helper().AttachLoop({loop->device, "mooring-ro:b", true});
  ASSERT_OK(upper);
  ASSERT_OK(helper().Bind(NodeBindOf(upper->device, Target("node"))));
  EXPECT_EQ(TryWrite(Target("node"), "x"), EPERM);
  EXPECT_OK(helper().Unmount(UnmountOf(Target("node"), true)));
  EXPECT_OK(helper().DetachLoop(*upper));
  EXPECT_OK(helper().DetachLoop(*loop));
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_F(HelperMounterTest, GrowsAMountedFilesystem) {
  if (!HasCapSysResource()) GTEST_SKIP() << "the kernel needs CAP_SYS_RESOURCE to grow a mounted ext4";
  Stage();
  std::filesystem::resize_file(Image("a.img"), 64 * kMiB);
  ASSERT_OK(helper().ResizeLoop(*helper().Find(Target("staged"))->loop));
  EXPECT_OK(helper().Grow(Target("staged"), "ext4"));
  EXPECT_GT(helper().Stats(Target("staged"))->bytes.total, 50 * kMiB);
}

TEST_F(HelperMounterTest, ErrorsAreThoseOfTheKernelMounter) {
  EXPECT_THAT(helper().Stats(Path("csi")), FailsWith(StatusCode::kNotFound, "nothing is mounted at"));
  EXPECT_THAT(helper().HealthProblem(Path("csi")), FailsWith(StatusCode::kNotFound, "nothing is mounted at"));
  EXPECT_THAT(helper().Mount(MountOfImage("none.img", "staged")), FailsWith(StatusCode::kNotFound, "none.img"));
  EXPECT_THAT(helper().Probe(Image("none.img")), FailsWith(StatusCode::kNotFound, "none.img"));
  EXPECT_THAT(helper().FindLoops(Image("none.img")), FailsWith(StatusCode::kNotFound, "none.img"));
  EXPECT_THAT(helper().Format({Dir("volumes/d"), "ext4"}), Refused("neither a file"));
  Stage();
  EXPECT_THAT(helper().Mount(MountOfImage("a.img", "staged")), Refused("already"));
  File("csi/staged/open");
  const UniqueFd busy(::open(Target("staged/open").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(helper().Unmount(UnmountOf(Target("staged"))), Refused("busy"));
}

TEST_F(HelperMounterTest, ATooLongRequestIsNotSent) {
  MountRequest request = MountOfImage("a.img", "staged");
  for (int i = 0; i < 64; ++i) request.options.push_back({std::string(1500, 'o'), std::nullopt});
  EXPECT_THAT(helper().Mount(request), FailsWith(StatusCode::kInvalidArgument, "too long"));
  EXPECT_THAT(helper().Find("/" + std::string(70000, 'x')), FailsWith(StatusCode::kInvalidArgument, "too long"));
  EXPECT_THAT(helper().Find("/" + std::string(5000, 'x')), FailsWith(StatusCode::kInvalidArgument, "5001 bytes"));
  EXPECT_TRUE(EventuallyAnswers());
}

TEST_F(HelperMounterTest, ManyThreadsCallAtATime) {
  Stage();
  std::vector<std::thread> threads;
  for (int i = 0; i < 24; ++i) {
    threads.emplace_back([&, i] {
      const std::string target = Target("p" + std::to_string(i));
      for (int round = 0; round < 10; ++round) {
        EXPECT_OK(helper().Bind(BindOf(Target("staged"), target)));
        EXPECT_TRUE(helper().Find(target)->mount.has_value());
        EXPECT_OK(helper().Unmount(UnmountOf(target, true)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // At most eight channels stay open, each with a thread of the helper. The main thread is counted too, and a thread
  // that may wait for a foreign loop device that hangs on this host.
  EXPECT_TRUE(Eventually([this] { return Entries("/proc/" + std::to_string(helper().pid()) + "/task").size() < 16; }));
}

// ---- the helper is killed

TEST_F(HelperMounterTest, AHelperKilledWhileIdleIsReplaced) {
  Stage();
  const pid_t first = helper().pid();
  ASSERT_EQ(::kill(spawner_pid(), SIGSTOP), 0);
  KillHelper();
  EXPECT_TRUE(Eventually([this] { return !helper().Health().ok(); }));
  EXPECT_THAT(helper().Health(), FailsWith(StatusCode::kUnavailable, "another one is being started"));
  EXPECT_EQ(helper().pid(), -1);
  EXPECT_EQ(OptionsAt(Target("staged")), "rw,relatime");
  ASSERT_EQ(::kill(spawner_pid(), SIGCONT), 0);
  EXPECT_TRUE(AwaitNext(first));
  EXPECT_TRUE(helper().Find(Target("staged"))->mount.has_value());
  EXPECT_OK(helper().Unmount(UnmountOf(Target("staged"), true)));
  EXPECT_THAT(HelperLog(), Not(HasSubstr("error")));
}

TEST_F(HelperMounterTest, ACallWaitsForTheNextHelper) {
  Stage();
  ASSERT_EQ(::kill(spawner_pid(), SIGSTOP), 0);
  KillHelper();
  EXPECT_TRUE(Eventually([this] { return !helper().Health().ok(); }));
  std::thread later([this] {
    std::this_thread::sleep_for(milliseconds(200));
    ::kill(spawner_pid(), SIGCONT);
  });
  EXPECT_OK(helper().Bind(BindOf(Target("staged"), Target("published"))));
  later.join();
}

TEST_F(HelperMounterTest, ACallDoesNotWaitForeverForTheNextHelper) {
  ASSERT_EQ(::kill(spawner_pid(), SIGSTOP), 0);
  KillHelper();
  const auto start = Clock::now();
  {
    const DeadlineScope deadline(start + milliseconds(300));
    EXPECT_THAT(helper().Find(Path("csi")), FailsWith(StatusCode::kUnavailable, "mount helper"));
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(3));
  ASSERT_EQ(::kill(spawner_pid(), SIGCONT), 0);
  EXPECT_TRUE(EventuallyAnswers());
}

TEST_F(HelperMounterTest, AReadIsRepeatedAfterTheHelperEnds) {
  Stage();
  for (int round = 0; round < 3; ++round) {
    KillInTheMiddle([this] { EXPECT_TRUE(helper().Find(Target("staged"))->mount.has_value()); });
  }
}

TEST_F(HelperMounterTest, AChangeIsUnavailableAfterTheHelperEndsAndThenWorks) {
  Stage();
  KillInTheMiddle([this] {
    EXPECT_THAT(helper().Bind(BindOf(Target("staged"), Target("published"))),
                FailsWith(StatusCode::kUnavailable, "ended during the call: call again"));
  });
  EXPECT_OK(helper().Bind(BindOf(Target("staged"), Target("published"))));
  EXPECT_EQ(MountsAt(Target("published")).size(), 1U);
  EXPECT_EQ(OptionsAt(Target("staged")), "rw,relatime");
}

TEST_F(HelperMounterTest, AHelperKilledRepeatedlyIsReplacedAfterGrowingPauses) {
  Stage();
  ::testing::internal::CaptureStderr();
  const auto start = Clock::now();
  for (int kills = 0; kills < 6; ++kills) {
    const pid_t pid = helper().pid();
    KillHelper();
    EXPECT_TRUE(AwaitNext(pid)) << kills;
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  std::size_t logged = 0;
  for (std::size_t at = 0; (at = log.find("killed by signal 9 (Killed)", at)) != std::string::npos; ++at) ++logged;
  EXPECT_EQ(logged, 6U) << log;
  EXPECT_GT(Clock::now() - start, milliseconds(10 + 20 + 40 + 80 + 160 + 320 - 30));
  EXPECT_TRUE(helper().Find(Target("staged"))->mount.has_value());
  EXPECT_EQ(lost_, 0);
}

TEST_F(HelperMounterTest, KillingTheHelperUnderLoadLosesNoCall) {
  Stage();
  std::atomic<bool> over{false};
  std::atomic<int> begun{0}, replaced{0};  // kills
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::string target = Target("p" + std::to_string(i));
      while (!over) {
        const int before = replaced;
        const absl::Status found = helper().Find(Target("staged")).status();
        // A look is repeated once. On a busy machine it can be slow enough to meet two kills.
        EXPECT_TRUE(found.ok() || (absl::IsUnavailable(found) && begun - before >= 2)) << found;
        const absl::Status bound = helper().Bind(BindOf(Target("staged"), target));
        EXPECT_TRUE(bound.ok() || absl::IsUnavailable(bound) || absl::IsFailedPrecondition(bound)) << bound;
        const absl::Status gone = helper().Unmount(UnmountOf(target));
        EXPECT_TRUE(gone.ok() || absl::IsUnavailable(gone)) << gone;
      }
    });
  }
  for (int kills = 0; kills < 5; ++kills) {
    const pid_t pid = helper().pid();
    std::this_thread::sleep_for(milliseconds(20));
    ++begun;
    KillHelper();
    EXPECT_TRUE(AwaitNext(pid));
    ++replaced;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) {
    EXPECT_LE(MountsAt(Target("p" + std::to_string(i))).size(), 1U);
    EXPECT_OK(helper().Unmount(UnmountOf(Target("p" + std::to_string(i)), true)));
  }
}

// ---- the spawner is killed, or cannot start a helper

TEST_F(HelperMounterTest, TheEndOfTheSpawnerIsNoticedAtOnce) {
  Stage();
  const pid_t pid = helper().pid();
  ASSERT_EQ(::kill(spawner_pid(), SIGKILL), 0);
  EXPECT_TRUE(Eventually([this] { return lost_ == 1; }));
  EXPECT_THAT(helper().Health(), FailsWith(StatusCode::kUnavailable, "restart the plugin"));
  EXPECT_OK(helper().Unmount(UnmountOf(Target("staged"), true)));  // the helper that is there serves on
  EXPECT_EQ(helper().pid(), pid);
  KillHelper();
  EXPECT_TRUE(Eventually([pid] { return !Runs(pid); }));
  const DeadlineScope deadline(Clock::now() + milliseconds(200));
  EXPECT_THAT(helper().Find(Path("csi")), FailsWith(StatusCode::kUnavailable, "restart the plugin"));
  EXPECT_EQ(lost_, 1);
}

TEST_F(HelperMounterTest, WithoutSpawnerAndHelperCallsFailAtOnce) {
  ASSERT_EQ(::kill(spawner_pid(), SIGSTOP), 0);
  KillHelper();
  EXPECT_TRUE(Eventually([this] { return !helper().Health().ok(); }));
  ASSERT_EQ(::kill(spawner_pid(), SIGKILL), 0);
  EXPECT_TRUE(Eventually([this] { return lost_ == 1; }));
  const auto start = Clock::now();
  EXPECT_THAT(helper().Find(Path("csi")), FailsWith(StatusCode::kUnavailable, "restart the plugin"));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
}

TEST_F(HelperMounterTest, AMissingProgramSaysWhatToDo) {
  EXPECT_THAT(StartSpawner(Path("nowhere")), Refused("--mounter=in-process"));
}

TEST_F(HelperMounterTest, AProgramThatIsNoHelperIsReported) {
  absl::StatusOr<HelperSpawner> spawner = StartSpawner("/bin/true");
  ASSERT_OK(spawner);
  EXPECT_THAT(spawner->StartHelper(), FailsWith(StatusCode::kUnavailable, "the spawner of the mount helper has ended"));
}

// ---- the end

TEST_F(HelperMounterTest, StopSignalsAreIgnored) {
  const pid_t pid = helper().pid();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    EXPECT_EQ(::kill(pid, signal), 0);
    EXPECT_EQ(::kill(spawner_pid(), signal), 0);
  }
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_OK(helper().Find(Path("csi")));
  EXPECT_EQ(helper().pid(), pid);
  EXPECT_TRUE(Runs(spawner_pid()));
}

TEST_F(HelperMounterTest, HelperAndSpawnerEndWithThePluginAndMountsStay) {
  Stage();
  const pid_t pid = helper().pid();
  EndHelper();
  EXPECT_FALSE(Runs(pid));
  EXPECT_FALSE(Runs(spawner_pid()));
  EXPECT_EQ(OptionsAt(Target("staged")), "rw,relatime");
}

TEST_F(HelperMounterTest, AStoppedSpawnerDoesNotDelayTheEnd) {
  ASSERT_EQ(::kill(spawner_pid(), SIGSTOP), 0);
  KillHelper();
  EXPECT_TRUE(Eventually([this] { return !helper().Health().ok(); }));
  std::this_thread::sleep_for(milliseconds(200));  // until the next one is asked for
  const auto start = Clock::now();
  EndHelper();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(4));
  ASSERT_EQ(::kill(spawner_pid(), SIGCONT), 0);
  EXPECT_TRUE(Eventually([this] { return ::waitpid(spawner_pid(), nullptr, WNOHANG) != 0; }));
  EXPECT_EQ(lost_, 0);
}

}  // namespace
}  // namespace mooring::testing
