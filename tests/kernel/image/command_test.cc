// Programs that the helper runs: how they end, and that none is left behind.
#include "mounter/process/command.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <csignal>
#include <fstream>

#include "base/child.h"
#include "mounter/filesystem/ext4_offline.h"
#include "mounter/filesystem/identity.h"
#include "mounter/image/image.h"
#include "tests/kernel/kernel_test.h"
#include "tests/support/fuse_server.h"
#include "tests/support/hold_image.h"

namespace mooring::testing {
namespace {

using std::chrono::seconds;

absl::StatusOr<CommandResult> Shell(const std::string& script, seconds limit = seconds(20)) {
  return RunCommand({"sh", "-c", script}, "dash", limit);
}

struct ShellCase {
  const char* test;
  const char* script;
  int exit_code;
  const char* output;
};

class ShellTest : public ::testing::TestWithParam<ShellCase> {};

TEST_P(ShellTest, ReturnsExitCodeAndOutput) {
  const auto result = Shell(GetParam().script);
  ASSERT_OK(result);
  EXPECT_EQ(result->exit_code, GetParam().exit_code);
  EXPECT_EQ(result->output, GetParam().output);
}

INSTANTIATE_TEST_SUITE_P(Scripts, ShellTest,
                         ::testing::Values(ShellCase{"BothOutputsOnOneLine", "echo out; echo err >&2; exit 7", 7,
                                                     "out err"},
                                           ShellCase{"NoOutput", "true", 0, ""},
                                           ShellCase{"SignalIsTheExitCodeAbove128", "kill -TERM $$", 128 + SIGTERM, ""},
                                           ShellCase{"InputIsEmpty", "cat; echo done", 0, "done"}),
                         [](const auto& test) { return std::string(test.param.test); });

TEST(CommandTest, ArgumentsAreNoShellText) {
  const auto result = RunCommand({"printf", "%s|", "a b", "$HOME", "; false", "'\""}, "coreutils", seconds(20));
  ASSERT_OK(result);
  EXPECT_EQ(result->output, "a b|$HOME|; false|'\"|");
}

// This and the next limit an exploited e2fsck.
TEST(CommandTest, AProgramCannotBecomeAnotherUser) {
  const auto result = RunCommand({"setpriv", "--reuid=4242", "--clear-groups", "true"}, "util-linux", seconds(20));
  ASSERT_OK(result);
  EXPECT_NE(result->exit_code, 0);
  EXPECT_THAT(result->output, ::testing::HasSubstr("not permitted"));
  EXPECT_EQ(::mooring::testing::Run("setpriv --reuid=4242 --clear-groups true"), 0) << "this process keeps its rights";
}

TEST(CommandTest, AProgramCanNeitherMountNorUseSocketsNorMakeDevices) {
  const TempDir dir;
  const std::string place = dir / "place";
  for (const std::string& script : {"mkdir " + place + " && mount -t tmpfs none " + place,
                                    std::string("unshare --mount true"), "mknod " + place + "-node b 7 0",
                                    std::string("perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or exit 1'")}) {
    const auto result = Shell(script);
    ASSERT_OK(result);
    EXPECT_NE(result->exit_code, 0) << script;
  }
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_TRUE(socket.ok()) << "this process itself may";
}

absl::StatusOr<CommandResult> AsLvm(const std::string& script, seconds limit = seconds(20),
                                    ProgramKind kind = ProgramKind::kLvm) {
  return RunCommand({"sh", "-c", script}, "dash", limit, {}, {}, kind);
}

// DM_VERSION of the device mapper, on a file that knows no ioctl(2): without a filter the error is another one.
constexpr const char* kAskDeviceMapper =
    "perl -e 'my $call = \"x\" x 312; ioctl(STDIN, 0xc138fd00, $call) or die \"$!\"'";

TEST(CommandTest, LvmMayMakeBlockDevicesAndUseTheDeviceMapperAndOthersMayNot) {
  const TempDir dir;
  EXPECT_THAT(AsLvm(kAskDeviceMapper)->output, ::testing::HasSubstr("Inappropriate ioctl"));
  EXPECT_THAT(Shell(kAskDeviceMapper)->output, ::testing::HasSubstr("not permitted"));
  EXPECT_THAT(AsLvm(kAskDeviceMapper, seconds(20), ProgramKind::kLvmReport)->output,
              ::testing::HasSubstr("Inappropriate ioctl"));
  EXPECT_EQ(AsLvm("mknod " + (dir / "block") + " b 7 0")->exit_code, 0);
  for (const std::string& script :
       {"mknod " + (dir / "other") + " c 1 3",
        "mkdir " + (dir / "place") + " && mount -t tmpfs none " + (dir / "place"), std::string("unshare --mount true"),
        std::string("perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or exit 1'")}) {
    const auto result = AsLvm(script);
    ASSERT_OK(result);
    EXPECT_NE(result->exit_code, 0) << script;
  }
}

TEST(CommandTest, OnlyTheTailOfALongOutputIsKept) {
  const auto result = Shell("head -c 1000000 /dev/zero | tr '\\0' x; echo the end");
  ASSERT_OK(result);
  EXPECT_LE(result->output.size(), 2048U);
  EXPECT_THAT(result->output, ::testing::EndsWith("xxthe end"));
}

TEST(CommandTest, HeldFilesArriveWhateverNumbersTheyHave) {
  const TempDir dir;
  std::ofstream(dir / "first") << "first";
  std::ofstream(dir / "second") << "second";
  const UniqueFd first(::open((dir / "first").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd second(::open((dir / "second").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd output(::open((dir / "output").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string script = fmt::format("cat /proc/self/fd/{} /proc/self/fd/{}", first.get(), second.get());
  const auto pid = SpawnProgram(
      {.program = "/bin/sh",
       .arguments = {"sh", "-c", script},
       .variables = {},
       .descriptors = {{output.get(), STDOUT_FILENO}, {second.get(), first.get()}, {first.get(), second.get()}}});
  ASSERT_OK(pid);
  EXPECT_EQ(AwaitChild(*pid), 0);
  EXPECT_EQ(ReadFile(dir / "output"), "secondfirst");
}

TEST(CommandTest, RunsInAKnownEnvironment) {
  ::setenv("MOORING_SECRET", "value", 1);
  const auto result = Shell("echo $LC_ALL; echo secret=$MOORING_SECRET");
  ::unsetenv("MOORING_SECRET");
  ASSERT_OK(result);
  EXPECT_EQ(result->output, "C secret=");
}

TEST(CommandTest, MissingProgramNamesItselfAndItsPackage) {
  const auto result = RunCommand({"no-such-program"}, "its-package", seconds(20));
  EXPECT_THAT(result, Refused("no-such-program"));
  EXPECT_THAT(result, Refused("its-package"));
}

TEST(CommandTest, IsFoundWithoutAPath) {
  const std::string path = ::getenv("PATH");
  ::unsetenv("PATH");
  EXPECT_OK(RunCommand({"true"}, "coreutils", seconds(20)));
  ::setenv("PATH", path.c_str(), 1);
}

class DeadlineTest : public KernelTest {
 protected:
  // The script writes the id of this process into the file "pid".
  bool Gone() const {
    return Eventually([this] { return ::kill(std::stoi(ReadFile(Path("pid"))), 0) != 0; });
  }
};

TEST_F(DeadlineTest, KillsAProgramWithItsChildren) {
  for (const std::string& script : {"echo $$ > '" + Path("pid") + "'; exec sleep 30",           // is quiet
                                    "echo $$ > '" + Path("pid") + "'; exec yes",                // writes all the time
                                    "echo $$ > '" + Path("pid") + "'; exec sleep 30 >&- 2>&-",  // closed its output
                                    "sleep 30 & echo $! > '" + Path("pid") + "'; wait"}) {      // waits for a child
    SCOPED_TRACE(script);
    const auto start = Clock::now();
    EXPECT_THAT(Shell(script, seconds(1)), FailsWith(StatusCode::kDeadlineExceeded, "killed after 1 s"));
    EXPECT_LT(Clock::now() - start, seconds(5));
    EXPECT_TRUE(Gone());
  }
}

// FUSE stands in for a disk that does not answer. A process that waits for a request which the server has read cannot
// be killed.
TEST_F(DeadlineTest, ProgramThatCannotBeKilledDelaysNoCall) {
  FuseServer disk(Dir("target"));
  ASSERT_EQ(TryWrite(Path("target/file"), "x"), 0);
  disk.HangOnData();
  const auto start = Clock::now();
  EXPECT_THAT(Shell("echo $$ > '" + Path("pid") + "'; exec sync '" + Path("target/file") + "'", seconds(1)),
              FailsWith(StatusCode::kDeadlineExceeded, "has not ended yet"));
  EXPECT_LT(Clock::now() - start, seconds(5));
  const pid_t pid = std::stoi(ReadFile(Path("pid")));
  EXPECT_TRUE(Runs(pid));
  disk.Die();
  EXPECT_TRUE(Eventually([&] { return !Runs(pid); }));
  EXPECT_OK(Shell("true"));
  EXPECT_EQ(ReadFile(fmt::format("/proc/{}/stat", pid)), "") << "the next one reaps it";
}

TEST_F(DeadlineTest, EndOfTheProgramEndsTheCallAndItsChildren) {
  const auto start = Clock::now();
  const auto result = Shell("echo said; sleep 30 & echo $! > '" + Path("pid") + "'");
  ASSERT_OK(result);
  EXPECT_EQ(result->output, "said");
  EXPECT_LT(Clock::now() - start, seconds(5));
  EXPECT_TRUE(Gone());
}

TEST_F(DeadlineTest, LvmIsNeverKilledAndHoldsUpTheNextOne) {
  const std::string script =
      "echo $$ > '" + Path("pid") + "'; echo early; sleep 3; echo late; touch '" + Path("done") + "'";
  EXPECT_THAT(AsLvm(script, seconds(1)), FailsWith(StatusCode::kDeadlineExceeded, "still runs after 1 s"));
  EXPECT_FALSE(Exists(Path("done")));
  const std::string pid = ReadFile(Path("pid"));
  EXPECT_THAT(AsLvm("true"), FailsWith(StatusCode::kUnavailable,
                                       "an earlier lvm still runs (process " + std::to_string(std::stoi(pid)) + ")"));
  EXPECT_THAT(CheckNoLvmLingers(), FailsWith(StatusCode::kUnavailable, "still runs"));
  EXPECT_OK(AsLvm("true", seconds(20), ProgramKind::kLvmReport));
  EXPECT_OK(Shell("true"));
  EXPECT_TRUE(Eventually([this] { return Exists(Path("done")); })) << "its output breaks no pipe";
  EXPECT_TRUE(Eventually([] { return CheckNoLvmLingers().ok(); }));
  EXPECT_OK(AsLvm("true"));
}

TEST_F(DeadlineTest, ReportOfLvmIsKilled) {
  const std::string script = "echo $$ > '" + Path("pid") + "'; exec sleep 30";
  EXPECT_THAT(AsLvm(script, seconds(1), ProgramKind::kLvmReport),
              FailsWith(StatusCode::kDeadlineExceeded, "killed after 1 s"));
  EXPECT_TRUE(Gone());
  EXPECT_OK(CheckNoLvmLingers());
}

TEST_F(DeadlineTest, EndOfLvmKillsNoProgramThatItStarted) {
  const auto result = AsLvm("echo said; echo more; (sleep 1; touch '" + Path("done") + "') & exit 3");
  ASSERT_OK(result);
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->output, "said\nmore\n") << "its lines stay apart";
  EXPECT_TRUE(Eventually([this] { return Exists(Path("done")); }));
}

// The root cgroup is out of reach in most containers.
TEST_F(DeadlineTest, LvmLeavesTheCgroupOfTheServiceAndOthersStay) {
  const std::string ask = "sleep 0.2; grep '^0::' /proc/self/cgroup";
  const auto tool = Shell(ask);
  ASSERT_OK(tool);
  EXPECT_THAT(ReadFile("/proc/self/cgroup"), ::testing::HasSubstr(tool->output));
  const auto lvm = AsLvm(ask);
  ASSERT_OK(lvm);
  const bool can_move = ::mooring::testing::Run("sh -c 'echo $$ >/sys/fs/cgroup/cgroup.procs' 2>/dev/null") == 0;
  EXPECT_EQ(lvm->output, can_move ? "0::/\n" : tool->output + "\n");
}

// The programs that check, format and change a filesystem.
struct KilledCase {
  const char* program;
  const char* fs_type;
};

class KilledTest : public KernelTest, public ::testing::WithParamInterface<KilledCase> {
 protected:
  absl::Status Run(const std::string& image) {
    const std::string program = GetParam().program;
    if (program.starts_with("mkfs")) return mounter_.Format({image, GetParam().fs_type});
    if (program == "e2fsck") return mounter_.Check(image, GetParam().fs_type);
    if (program == "resize2fs") return ResizeAfterGrowth(image);
    return RenewIdentity(image, GetParam().fs_type, HoldImage(image));
  }
  std::string Image() {
    const std::string program = GetParam().program;
    return program.starts_with("mkfs") ? Sparse("v.img", 320 * kMiB) : ImageOf(GetParam().fs_type, "v.img");
  }

 private:
  static absl::Status ResizeAfterGrowth(const std::string& image) {
    EXPECT_EQ(::truncate(image.c_str(), 64 * kMiB), 0);
    MOORING_ASSIGN_OR_RETURN(const LockedImage locked, LockImage(image));
    return ResizeExt4(locked);
  }
};

TEST_P(KilledTest, IsToldAsThatAndNotAsDamage) {
  const std::string image = Image();
  PutOnPath(GetParam().program, "kill -9 $$");
  const absl::Status killed = Run(image);
  EXPECT_THAT(killed, FailsWith(StatusCode::kAborted, "was killed before its end by signal 9 (Killed)"));
  EXPECT_THAT(killed, FailsWith(StatusCode::kAborted, GetParam().program));
  RestorePath();
  EXPECT_OK(Run(image));
}

INSTANTIATE_TEST_SUITE_P(Programs, KilledTest,
                         ::testing::Values(KilledCase{"mkfs.ext4", "ext4"}, KilledCase{"mkfs.xfs", "xfs"},
                                           KilledCase{"mkfs.btrfs", "btrfs"}, KilledCase{"e2fsck", "ext4"},
                                           KilledCase{"resize2fs", "ext4"}, KilledCase{"tune2fs", "ext4"},
                                           KilledCase{"xfs_db", "xfs"}),
                         [](const auto& test) {
                           std::string name = test.param.program;
                           std::erase_if(name, [](char c) { return c == '.' || c == '_'; });
                           return name;
                         });

}  // namespace
}  // namespace mooring::testing
