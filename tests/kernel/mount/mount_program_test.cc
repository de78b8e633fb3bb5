// Filesystems that the kernel does not know, and the programs /sbin/mount.TYPE that mount them.
#include "mounter/mount/mount_program.h"

#include <csignal>
#include <optional>

#include "tests/kernel/kernel_test.h"
#include "tests/kernel/mount/sbin.h"
#include "tests/support/fuse_server.h"

namespace mooring::testing {
namespace {

using ::testing::AllOf;
using ::testing::StartsWith;

class MountProgramTest : public KernelTest {
 protected:
  void SetUp() override {
    sbin_.emplace(dir_.path());
    image_ = Ext4Image("image");
  }
  void TearDown() override {
    sbin_.reset();
    KernelTest::TearDown();
  }

  void Program(const std::string& body, const std::string& name = "mount.faketype") const { sbin_->Add(name, body); }

  MountRequest Request(const MountFlags& flags = {}) const {
    MountRequest request = MountOf(image_, Path("target"), "faketype");
    request.flags = flags;
    request.by_hand = request.may_run_program = true;
    return request;
  }

  void ExpectNothingLeft() const {
    EXPECT_THAT(MountsBelow(Path("target")), IsEmpty());
    EXPECT_FALSE(Exists(Path("target")));
    EXPECT_TRUE(NoLoopOver(image_));
    const std::string scratch = fmt::format("/mooring-scratch/{}-", ::getpid());
    for (const MountLine& line : Mounts()) {
      const bool is_in_scratch = line.target.find(scratch) != std::string::npos;
      EXPECT_FALSE(is_in_scratch && !line.target.ends_with("/tmpfs")) << line.target;
    }
  }

  std::string image_;

 private:
  std::optional<Sbin> sbin_;
};

constexpr char kMount[] = "mount -n -t ext4 \"$1\" \"$2\"";

TEST_F(MountProgramTest, MountsWhatTheKernelDoesNotKnow) {
  Program(std::string("echo \"$@\" >$DIR/arguments; env >$DIR/environment; ls /proc/self/fd >$DIR/files\n") +
          "links=$(readlink /proc/$$/fd/0 /proc/$$/fd/1); echo \"$links\" >>$DIR/files; pwd >>$DIR/files\n" +
          "grep NoNewPrivs /proc/$$/status >>$DIR/files; cut -d ' ' -f 5,6 /proc/$$/stat >$DIR/group\n" + kMount);
  const UniqueFd inherited(::open("/dev/null", O_RDONLY));  // without O_CLOEXEC
  MountRequest request = Request({.nosuid = true});
  request.options = {{"user_id", "0"}, {"allow_other", std::nullopt}};
  request.propagation = Propagation::kShared;
  ASSERT_OK(mounter_.Mount(request));
  EXPECT_EQ(OptionsAt(Path("target")), "rw,nosuid,relatime");
  EXPECT_THAT(PropagationAt(Path("target")), StartsWith("shared:"));
  EXPECT_THAT(LoopsOver(image_), SizeIs(1));
  EXPECT_THAT(ReadFile(Path("arguments")),
              AllOf(StartsWith(LoopsOver(image_)[0].device + " "), HasSubstr("mooring-scratch"), HasSubstr(" -n -o "),
                    HasSubstr("nosuid"), HasSubstr("user_id=0,allow_other"), Not(HasSubstr("shared"))));
  EXPECT_EQ(ReadFile(Path("files")), "0\n1\n2\n3\n/dev/null\n/dev/null\n/\nNoNewPrivs:\t1\n");
  const std::string environment = ReadFile(Path("environment"));
  EXPECT_THAT(environment, AllOf(HasSubstr("PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"), HasSubstr("LC_ALL=C\n"),
                                 Not(HasSubstr("HOME=")), Not(HasSubstr("MOORING"))));
  EXPECT_NE(std::stoi(ReadFile(Path("group"))), ::getpgrp());
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"), true)));
  ExpectNothingLeft();
}

TEST_F(MountProgramTest, FlagsThatTheProgramHasNotSetAreAdded) {
  Program(kMount);
  ASSERT_OK(mounter_.Mount(Request({.read_only = true, .nosuid = true, .nodev = true, .noexec = true})));
  EXPECT_EQ(OptionsAt(Path("target")), "ro,nosuid,nodev,noexec,relatime");
  EXPECT_EQ(TryWrite(Path("target/file"), "x"), EROFS);
}

TEST_F(MountProgramTest, FlagsThatTheProgramHasSetStay) {
  Program("mount -n -t ext4 -o nosuid,nodev,noatime \"$1\" \"$2\"");
  ASSERT_OK(mounter_.Mount(Request({.noexec = true})));
  EXPECT_EQ(OptionsAt(Path("target")), "rw,nosuid,nodev,noexec,noatime");
}

TEST_F(MountProgramTest, AReadOnlyFilesystemIsShownAsSuch) {
  Program("mount -n -t ext4 -o ro \"$1\" \"$2\" && mount -n -o remount,bind,rw \"$2\"");
  ASSERT_OK(mounter_.Mount(Request()));
  EXPECT_EQ(OptionsAt(Path("target")), "ro,relatime");
}

// A filesystem in user space has no device. Its program comes back, and then nobody serves it.
TEST_F(MountProgramTest, AFilesystemInUserSpaceIsMountedAlsoIfItsServerDoesNotAnswer) {
  Program("echo \"$2\" >$DIR/place.new; mv $DIR/place.new $DIR/place; until [ -e $DIR/served ]; do sleep 0.02; done");
  std::unique_ptr<FuseServer> server;
  std::thread daemon([&] {
    if (!Eventually([&] { return Exists(Path("place")); })) return;
    std::string place = ReadFile(Path("place"));
    place.pop_back();
    server = std::make_unique<FuseServer>(place);
    server->Hang();
    File("served");
    for (int tenths = 0; tenths < 50 && !Exists(Path("is mounted")); ++tenths)
      std::this_thread::sleep_for(milliseconds(100));
    server->Resume();
  });
  const auto start = Clock::now();
  const absl::Status mounted = mounter_.Mount(Request({.nosuid = true}));
  const auto took = Clock::now() - start;
  File("is mounted");
  daemon.join();
  ASSERT_OK(mounted);
  EXPECT_LT(took, std::chrono::seconds(4)) << "it has waited for an answer";
  EXPECT_EQ(MountAt(Path("target"))->fs_type, "fuse");
  EXPECT_TRUE(MountAt(Path("target"))->Has("nosuid"));
  EXPECT_EQ(::umount2(Path("target").c_str(), MNT_DETACH), 0);
}

TEST_F(MountProgramTest, MountsNoPartOfAFilesystem) {
  Program("touch $DIR/was-run");
  MountRequest request = Request();
  request.subdirectory = "a";
  EXPECT_THAT(mounter_.Mount(request), FailsWith(StatusCode::kInvalidArgument, "leave X-mount.subdir out"));
  EXPECT_FALSE(Exists(Path("was-run")));
  ExpectNothingLeft();
}

struct Failure {
  const char* program;
  const char* message;
};

class FailingProgramTest : public MountProgramTest, public ::testing::WithParamInterface<Failure> {};

TEST_P(FailingProgramTest, LeavesNothing) {
  Program(GetParam().program);
  EXPECT_THAT(mounter_.Mount(Request()), Refused(GetParam().message));
  ExpectNothingLeft();
}

INSTANTIATE_TEST_SUITE_P(
    Programs, FailingProgramTest,
    ::testing::Values(
        Failure{"echo 'no such' >&2; echo luck >&2; exit 32", "exit status 32; its error output: no such luck"},
        Failure{"kill -9 $$", "it was killed, or did not start"},
        Failure{"exit 0", "says that it has succeeded, and has mounted nothing"},
        Failure{"mount -n -t tmpfs none \"$2\"", "it has mounted something else: tmpfs"},
        Failure{"mount -n --bind /proc \"$2\"", "it has mounted something else: proc"},
        Failure{"mount -n -t ext4 \"$1\" \"$2\"; mount -n --bind \"$2/lost+found\" \"$2\"", "it has made 2 mounts"},
        Failure{"mount -n -t ext4 \"$1\" \"$2\"; mount -n -t tmpfs none \"$2\"", "it has made 2 mounts, not one"},
        Failure{"mount -n -t ext4 \"$1\" \"$2\"; mount -n -t ext4 \"$1\" \"$2/lost+found\"; exit 1", "exit status 1"},
        Failure{"mount -n -t ext4 \"$1\" \"$2\"; kill -9 $$", "it was killed"}),
    [](const auto& test) { return fmt::format("Case{}", test.index); });

TEST_F(MountProgramTest, AProgramThatHangsIsKilledWithItsChildren) {
  Program(std::string("echo waiting >&2; ") + kMount +
          "; sleep 1000 & echo $! >$DIR/child; echo $$ >$DIR/own; sleep 1000");
  const std::string device = Losetup(image_);
  const auto made = MakeMountByProgram(Request(), device, StatOf(device).st_rdev, milliseconds(1500));
  EXPECT_THAT(made.status(), FailsWith(StatusCode::kDeadlineExceeded, "killed; its error output: waiting"));
  for (const char* name : {"child", "own"}) {
    const pid_t pid = std::stoi(ReadFile(Path(name)));
    EXPECT_TRUE(Eventually([&] { return !Runs(pid); })) << name;
  }
  DetachLoop(LoopsOver(image_).at(0));
  ExpectNothingLeft();
}

TEST_F(MountProgramTest, AfterAFailureNoChildOfTheProgramIsLeft) {
  Program("sleep 1000 & echo $! >$DIR/child; exit 1");
  EXPECT_THAT(mounter_.Mount(Request()), Refused("exit status 1"));
  const pid_t pid = std::stoi(ReadFile(Path("child")));
  EXPECT_TRUE(Eventually([&] { return !Runs(pid); }));
}

// A filesystem in user space needs it.
TEST_F(MountProgramTest, AfterASuccessItsDaemonLives) {
  Program(std::string(kMount) + "; setsid sleep 1000 & echo $! >$DIR/child");
  ASSERT_OK(mounter_.Mount(Request()));
  const pid_t pid = std::stoi(ReadFile(Path("child")));
  EXPECT_TRUE(Runs(pid));
  ::kill(pid, SIGKILL);
}

TEST_F(MountProgramTest, IsNeitherRunUnaskedNorForWhatTheKernelKnowsNorFromThePath) {
  Program("touch $DIR/was-run; exit 1");
  Program("touch $DIR/was-run; exit 1", "mount.ext2");
  MountRequest request = Request();
  request.may_run_program = false;
  EXPECT_THAT(mounter_.Mount(request), Refused("the kernel knows no filesystem faketype"));
  Tool("mke2fs -q -F -t ext2 '" + image_ + "'");
  request.fs_type = "ext2";
  request.may_run_program = true;
  EXPECT_OK(mounter_.Mount(request));
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"), true)));
  PutOnPath("mount.other", "touch " + Path("was-run"));
  request.fs_type = "other";
  EXPECT_THAT(mounter_.Mount(request), Refused("the kernel knows no filesystem other"));
  EXPECT_FALSE(Exists(Path("was-run")));
  ExpectNothingLeft();
}

}  // namespace
}  // namespace mooring::testing
