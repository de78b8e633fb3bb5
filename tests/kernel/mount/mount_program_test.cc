// Filesystems that the kernel does not know, and the programs /sbin/mount.TYPE that mount them.
#include "mounter/mount/mount_program.h"

#include <csignal>
#include <optional>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

using ::testing::AllOf;
using ::testing::StartsWith;

class MountProgramTest : public KernelTest {
 protected:
  // Puts a directory over /sbin, with links to all that is there.
  void SetUp() override {
    Dir("sbin");
    ASSERT_EQ(::mount(sbin_.c_str(), Dir("system").c_str(), nullptr, MS_BIND, nullptr), 0);
    for (const std::string& name : Entries(Path("system"))) {
      std::filesystem::create_symlink(Path("system/" + name), Path("sbin/" + name));
    }
    ASSERT_EQ(::mount(Path("sbin").c_str(), sbin_.c_str(), nullptr, MS_BIND, nullptr), 0);
    image_ = Ext4Image("image");
  }
  void TearDown() override {
    EXPECT_EQ(::umount2(sbin_.c_str(), MNT_DETACH), 0);
    KernelTest::TearDown();
  }

  // The body gets the device as $1 and the mount point as $2. $DIR is the directory of the test.
  void Program(const std::string& body, const std::string& name = "mount.faketype") const {
    const std::string text = "#!/bin/sh\nDIR=" + dir_.path() + "\n" + body + "\n";
    ASSERT_EQ(::chmod(File("sbin/" + name, text).c_str(), 0755), 0);
  }

  MountRequest Request(const MountFlags& flags = {}) const {
    MountRequest request = MountOf(image_, Path("target"), "faketype");
    request.flags = flags;
    request.by_hand = true;
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
  const std::string sbin_ = std::filesystem::canonical("/sbin");
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

TEST_F(MountProgramTest, FlagsAreExactWhateverTheProgramHasSet) {
  Program(kMount);
  ASSERT_OK(mounter_.Mount(Request({.read_only = true, .nosuid = true, .nodev = true, .noexec = true})));
  EXPECT_EQ(OptionsAt(Path("target")), "ro,nosuid,nodev,noexec,relatime");
  EXPECT_EQ(TryWrite(Path("target/file"), "x"), EROFS);
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"), true)));
  Program("mount -n -t ext4 -o ro,noexec,noatime \"$1\" \"$2\"");
  ASSERT_OK(mounter_.Mount(Request()));
  EXPECT_EQ(OptionsAt(Path("target")), "rw,relatime");
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
  request.by_hand = false;
  EXPECT_THAT(mounter_.Mount(request), Refused("the kernel knows no filesystem faketype"));
  Tool("mke2fs -q -F -t ext2 '" + image_ + "'");
  request.fs_type = "ext2";
  request.by_hand = true;
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
