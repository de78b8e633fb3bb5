// Check, Grow, Stats and HealthProblem: what happens to a filesystem in its life.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/file/unique_fd.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

using ::testing::HasSubstr;

std::uint64_t BytesAt(const std::string& path) {
  struct statvfs status = {};
  EXPECT_EQ(::statvfs(path.c_str(), &status), 0);
  return status.f_blocks * status.f_frsize;
}

class UpkeepTest : public KernelTest {
 protected:
  bool NeedsCheck(const std::string& image) { return mounter_.Probe(image)->needs_check; }
  // Mounts the image, then doubles its size and that of the loop device.
  void MountAndEnlarge(const std::string& image, const std::string& fs_type, const MountFlags& flags = {}) {
    MountRequest request = MountOf(image, Path("target"), fs_type);
    request.flags = flags;
    ASSERT_OK(mounter_.Mount(request));
    ASSERT_EQ(::truncate(image.c_str(), StatOf(image).st_size * 2), 0);
    ASSERT_OK(mounter_.ResizeLoop(mounter_.FindLoops(image)->front()));
  }
};

TEST_F(UpkeepTest, CheckOfAHealthyOneChangesNothing) {
  const std::string image = Ext4Image("image");
  const std::string before = ReadFile(image);
  EXPECT_OK(mounter_.Check(image, "ext4"));
  EXPECT_TRUE(ReadFile(image) == before);
}

TEST_F(UpkeepTest, CheckMakesSafeRepairs) {
  const std::string image = Ext4Image("image");
  ASSERT_EQ(Tool("debugfs -w -R 'set_super_value free_blocks_count 5' " + image + " 2>/dev/null"), 0);
  ASSERT_EQ(Tool("debugfs -w -R 'set_super_value state 3' " + image + " 2>/dev/null"), 0);
  ASSERT_TRUE(NeedsCheck(image));
  EXPECT_OK(mounter_.Check(image, "ext4"));
  EXPECT_FALSE(NeedsCheck(image));
  EXPECT_EQ(Tool("e2fsck -fn " + image + " >/dev/null 2>&1"), 0);
}

TEST_F(UpkeepTest, CheckRefusesOtherErrorsWithAdvice) {
  const std::string image = Ext4Image("image");
  ASSERT_EQ(Tool("debugfs -w -R 'clri <2>' " + image + " 2>/dev/null"), 0);  // the root directory
  ASSERT_EQ(Tool("debugfs -w -R 'set_super_value state 3' " + image + " 2>/dev/null"), 0);
  EXPECT_THAT(mounter_.Check(image, "ext4"), FailsWith(absl::StatusCode::kFailedPrecondition, "e2fsck -f " + image));
  EXPECT_TRUE(NeedsCheck(image));
}

TEST_F(UpkeepTest, GrowRefusesOtherErrorsWithAdvice) {
  const std::string image = Ext4Image("image");
  ASSERT_EQ(Tool("debugfs -w -R 'clri <2>' " + image + " 2>/dev/null"), 0);  // the root directory
  ASSERT_EQ(::truncate(image.c_str(), 64 * kMiB), 0);
  EXPECT_THAT(mounter_.Grow(image, "ext4"), FailsWith(absl::StatusCode::kFailedPrecondition, "e2fsck -f " + image));
}

TEST_F(UpkeepTest, CheckOfZeroesIsRefused) {
  const std::string image = Ext4Image("image");
  Overwrite(image, 0, std::string(2 * kMiB, '\0'));
  EXPECT_THAT(mounter_.Check(image, "ext4"), FailsWith(absl::StatusCode::kFailedPrecondition, image));
}

TEST_F(UpkeepTest, CheckOfXfsAndBtrfsIsTheKernels) {
  EXPECT_OK(mounter_.Check(XfsImage("image"), "xfs"));
  EXPECT_OK(mounter_.Check(BtrfsImage("other"), "btrfs"));
}

TEST_F(UpkeepTest, CheckAndGrowOfAnUnknownTypeAreRefused) {
  EXPECT_THAT(mounter_.Check(Ext4Image("image"), "ntfs"), FailsWith(absl::StatusCode::kInvalidArgument, "ntfs"));
  ASSERT_OK(mounter_.Mount(MountOf(Path("image"), Path("target"))));
  EXPECT_THAT(mounter_.Grow(Path("target"), "ntfs"), FailsWith(absl::StatusCode::kInvalidArgument, "ntfs"));
}

TEST_F(UpkeepTest, GrowOfAnUnmountedExt4KeepsItsData) {
  const std::string image = Ext4Image("image", 32 * kMiB);
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"))));
  ASSERT_EQ(TryWrite(Path("target/file"), "data"), 0);
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
  ASSERT_EQ(::truncate(image.c_str(), 64 * kMiB), 0);
  ASSERT_OK(mounter_.Grow(image, "ext4"));
  EXPECT_EQ(mounter_.Probe(image)->size_bytes, 64 * kMiB);
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"))));
  EXPECT_EQ(ReadFile(Path("target/file")), "data");
  EXPECT_GT(BytesAt(Path("target")), 48 * kMiB);
}

TEST_F(UpkeepTest, GrowOfAnUnmountedOneThatHasItsSizeIsOk) {
  const std::string image = Ext4Image("image");
  EXPECT_OK(mounter_.Grow(image, "ext4"));
  EXPECT_OK(mounter_.Grow(image, "ext4"));
}

TEST_F(UpkeepTest, GrowOfAnUnmountedXfsIsRefused) {
  EXPECT_THAT(mounter_.Grow(XfsImage("image"), "xfs"), FailsWith(absl::StatusCode::kFailedPrecondition, "mounted"));
}

TEST_F(UpkeepTest, GrowOfAnUnmountedBtrfsIsRefused) {
  EXPECT_THAT(mounter_.Grow(BtrfsImage("image"), "btrfs"), FailsWith(absl::StatusCode::kFailedPrecondition, "mounted"));
}

TEST_F(UpkeepTest, GrowOfAMountedBtrfsKeepsItsData) {
  const std::string image = BtrfsImage("image", 128 * kMiB);
  MountAndEnlarge(image, "btrfs");
  ASSERT_EQ(TryWrite(Path("target/file"), "data"), 0);
  ASSERT_OK(mounter_.Grow(Path("target"), "btrfs"));
  EXPECT_EQ(BytesAt(Path("target")), 256 * kMiB);
  EXPECT_EQ(ReadFile(Path("target/file")), "data");
  EXPECT_OK(mounter_.Grow(Path("target"), "btrfs")) << "again";
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
  EXPECT_EQ(mounter_.Probe(image)->size_bytes, 256 * kMiB);
}

TEST_F(UpkeepTest, GrowOfABtrfsThroughAReadOnlyMount) {
  MountAndEnlarge(BtrfsImage("image"), "btrfs", ReadOnly());
  ASSERT_OK(mounter_.Grow(Path("target"), "btrfs"));
  EXPECT_EQ(BytesAt(Path("target")), 256 * kMiB);
}

TEST_F(UpkeepTest, GrowOfAMountedXfsKeepsItsData) {
  const std::string image = XfsImage("image", 300 * kMiB);
  MountAndEnlarge(image, "xfs");
  ASSERT_EQ(TryWrite(Path("target/file"), "data"), 0);
  ASSERT_OK(mounter_.Grow(Path("target"), "xfs"));
  EXPECT_GT(BytesAt(Path("target")), 500 * kMiB);
  EXPECT_EQ(ReadFile(Path("target/file")), "data");
  EXPECT_OK(mounter_.Grow(Path("target"), "xfs")) << "again";
}

TEST_F(UpkeepTest, GrowThroughAReadOnlyMount) {
  MountAndEnlarge(XfsImage("image", 300 * kMiB), "xfs", ReadOnly());
  ASSERT_OK(mounter_.Grow(Path("target"), "xfs"));
  EXPECT_GT(BytesAt(Path("target")), 500 * kMiB);
  EXPECT_EQ(OptionsAt(Path("target")), "ro,relatime") << "and it is read-only still";
  EXPECT_EQ(TryWrite(Path("target/file"), "x"), EROFS);
}

TEST_F(UpkeepTest, GrowOfAMountedExt4NeedsCapSysResourceAndSaysSo) {
  MountAndEnlarge(Ext4Image("image", 32 * kMiB), "ext4");
  const absl::Status status = mounter_.Grow(Path("target"), "ext4");
  if (HasCapSysResource()) {
    EXPECT_OK(status);
    EXPECT_GT(BytesAt(Path("target")), 48 * kMiB);
  } else {
    EXPECT_THAT(status, FailsWith(absl::StatusCode::kFailedPrecondition, "CAP_SYS_RESOURCE"));
    EXPECT_LT(BytesAt(Path("target")), 32 * kMiB);
  }
}

TEST_F(UpkeepTest, GrowOfAMountedExt4ThatHasMetErrorsSaysThat) {
  const std::string image = Ext4Image("image", 32 * kMiB);
  MountAndEnlarge(image, "ext4");
  const std::string sysfs = "/sys/fs/ext4/" + LoopsOver(image).front().device.substr(5);
  ASSERT_EQ(Tool("echo test > " + sysfs + "/trigger_fs_error"), 0);
  ASSERT_TRUE(Eventually([&] { return ReadFile(sysfs + "/errors_count") != "0\n"; }));
  EXPECT_THAT(mounter_.Grow(Path("target"), "ext4"), FailsWith(absl::StatusCode::kFailedPrecondition, "errors"));
  EXPECT_THAT(mounter_.Grow(Path("target"), "ext4").ToString(), ::testing::Not(HasSubstr("CAP_SYS_RESOURCE")));
}

TEST_F(UpkeepTest, GrowOfAMountedExt4ThatHasItsSizeIsOkForEverybody) {
  ASSERT_OK(mounter_.Mount(MountOf(Ext4Image("image"), Path("target"))));
  EXPECT_OK(mounter_.Grow(Path("target"), "ext4"));
}

TEST_F(UpkeepTest, GrowReportsTheErrorOfTheKernel) {
  MountAndEnlarge(Ext4Image("image"), "ext4");
  ASSERT_EQ(::mount(nullptr, Path("target").c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  const absl::Status status = mounter_.Grow(Path("target"), "ext4");
  EXPECT_FALSE(status.ok());
  if (HasCapSysResource()) {
    EXPECT_THAT(status.ToString(), HasSubstr("Read-only file system"));
  }
}

TEST_F(UpkeepTest, GrowOfADirectoryThatIsNoMountTouchesNothing) {
  EXPECT_THAT(mounter_.Grow(Dir("directory"), "ext4"),
              FailsWith(absl::StatusCode::kFailedPrecondition, "is not a mount"))
      << "or it grows the host's own filesystem";
  EXPECT_THAT(mounter_.Grow(Path("missing"), "ext4"), FailsWith(absl::StatusCode::kNotFound, Path("missing")));
}

TEST_F(UpkeepTest, StatsAreOfTheVolume) {
  ASSERT_OK(mounter_.Mount(MountOf(Ext4Image("image"), Path("target"))));
  const auto before = mounter_.Stats(Path("target"));
  ASSERT_OK(before);
  EXPECT_EQ(before->bytes.total, BytesAt(Path("target")));
  EXPECT_GT(before->inodes.total, 0U);
  ASSERT_EQ(TryWrite(Path("target/file"), std::string(4 * kMiB, 'x')), 0);
  const auto after = mounter_.Stats(Path("target"));
  EXPECT_EQ(after->bytes.used, before->bytes.used + 4 * kMiB);
  EXPECT_EQ(after->bytes.available, before->bytes.available - 4 * kMiB);
  EXPECT_EQ(after->inodes.used, before->inodes.used + 1);
}

TEST_F(UpkeepTest, StatsOfADeviceAreItsSize) {
  const std::string device = Losetup(Sparse("image", 8 * kMiB));
  ASSERT_OK(mounter_.Bind(NodeBindOf(device, Path("target"))));
  const auto stats = mounter_.Stats(Path("target"));
  ASSERT_OK(stats);
  EXPECT_EQ(stats->bytes.total, 8 * kMiB);
  EXPECT_EQ(stats->inodes.total, 0U);
}

TEST_F(UpkeepTest, StatsOfWhatIsNotMountedAreNotFound) {
  EXPECT_THAT(mounter_.Stats(Dir("directory")), FailsWith(absl::StatusCode::kNotFound, Path("directory")))
      << "or they are the host's";
  EXPECT_THAT(mounter_.Stats(File("file")), FailsWith(absl::StatusCode::kNotFound, Path("file")));
  EXPECT_THAT(mounter_.Stats(Path("missing")), FailsWith(absl::StatusCode::kNotFound, Path("missing")));
  EXPECT_THAT(mounter_.Stats(Path("no/parent")), FailsWith(absl::StatusCode::kNotFound, Path("no")));
}

// Puts a program of e2fsprogs that starts a second late on the PATH of this process.
class SlowToolTest : public UpkeepTest {
 protected:
  void SetUp() override { path_ = ::getenv("PATH"); }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    UpkeepTest::TearDown();
  }
  void SlowDown(const std::string& tool) {
    Dir("bin");
    File("bin/" + tool, "#!/bin/sh\ntouch " + Path("started") + "\nsleep 1\nexec /usr/sbin/" + tool + " \"$@\"\n");
    ASSERT_EQ(::chmod(Path("bin/" + tool).c_str(), 0755), 0);
    ::setenv("PATH", (Path("bin") + ":" + path_).c_str(), 1);
  }
  // A call that comes while `work` runs the tool has to wait until the tool ends.
  void ExpectWaitedFor(const std::function<absl::Status()>& work, const std::function<absl::Status()>& other) {
    std::atomic<bool> done = false;
    std::thread working([&] {
      EXPECT_OK(work());
      done = true;
    });
    EXPECT_TRUE(Eventually([&] { return Exists(Path("started")); }));
    EXPECT_OK(other());
    EXPECT_TRUE(done);
    working.join();
  }
  std::string path_;
};

// "Corrected, and the system should be rebooted": of a mounted one, which this is not.
TEST_F(SlowToolTest, CheckThatCorrectedErrorsSucceedsWhateverItsExitCode) {
  if (HasCapSysResource()) GTEST_SKIP() << "here the kernel grows it, no program does";
  const std::string image = Ext4Image("image");
  ASSERT_EQ(::truncate(image.c_str(), 64 * kMiB), 0);
  Dir("bin");
  File("bin/e2fsck", "#!/bin/sh\n/usr/sbin/e2fsck \"$@\" || exit\n[ \"$1\" = -n ] || exit 3\n");
  ASSERT_EQ(::chmod(Path("bin/e2fsck").c_str(), 0755), 0);
  ::setenv("PATH", (Path("bin") + ":" + path_).c_str(), 1);
  EXPECT_OK(mounter_.Check(image, "ext4"));
  EXPECT_OK(mounter_.Grow(image, "ext4"));
}

TEST_F(SlowToolTest, MountWaitsForACheck) {
  const std::string image = Ext4Image("image");
  SlowDown("e2fsck");
  ExpectWaitedFor([&] { return mounter_.Check(image, "ext4"); },
                  [&] { return mounter_.Mount(MountOf(image, Path("target"))); });
}

TEST_F(SlowToolTest, MountWaitsForAGrowth) {
  if (HasCapSysResource()) GTEST_SKIP() << "here the kernel grows it, no program does";
  const std::string image = Ext4Image("image");
  ASSERT_EQ(::truncate(image.c_str(), 64 * kMiB), 0);
  SlowDown("resize2fs");
  ExpectWaitedFor([&] { return mounter_.Grow(image, "ext4"); },
                  [&] { return mounter_.Mount(MountOf(image, Path("target"))); });
  EXPECT_GT(BytesAt(Path("target")), 48 * kMiB);
}

TEST_F(UpkeepTest, CheckAndGrowOfWhatIsInUseAreRefused) {
  const std::string image = Ext4Image("image");
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"))));
  const std::string device = LoopsOver(image).front().device;
  EXPECT_THAT(mounter_.Check(image, "ext4"), FailsWith(absl::StatusCode::kFailedPrecondition, device));
  EXPECT_THAT(mounter_.Grow(image, "ext4"), FailsWith(absl::StatusCode::kFailedPrecondition, device));
}

TEST_F(UpkeepTest, BtrfsHealthTellsBackingFileErrorsAndReadOnly) {
  const std::string image = BtrfsImage("image");
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"), "btrfs")));
  EXPECT_EQ(*mounter_.HealthProblem(Path("target")), "");
  ASSERT_EQ(TryWrite(Path("target/file"), std::string(kMiB, 'x')), 0);
  // Data has no second copy. The test damages each block of it in the image, and reads it again.
  ASSERT_EQ(Tool("sync -f " + Path("target")), 0);
  const std::size_t data = ReadFile(image).find(std::string(65536, 'x'));
  ASSERT_NE(data, std::string::npos);
  Overwrite(image, data, std::string(4096, 'y'));
  ASSERT_EQ(Tool("echo 3 > /proc/sys/vm/drop_caches; ! cat " + Path("target/file") + " >/dev/null 2>&1"), 0);
  EXPECT_THAT(*mounter_.HealthProblem(Path("target")), HasSubstr("btrfs has met"));
  ASSERT_EQ(Tool("btrfs device stats -z " + Path("target") + " >/dev/null"), 0);
  EXPECT_EQ(*mounter_.HealthProblem(Path("target")), "");
  ASSERT_EQ(::mount(nullptr, Path("target").c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  EXPECT_THAT(*mounter_.HealthProblem(Path("target")), HasSubstr("read-only"));
  ASSERT_EQ(::unlink(image.c_str()), 0);
  EXPECT_THAT(*mounter_.HealthProblem(Path("target")), HasSubstr("deleted"));
}

class HealthProblemTest : public UpkeepTest {
 protected:
  void SetUp() override {
    image_ = Ext4Image("image");
    ASSERT_OK(mounter_.Mount(MountOf(image_, Path("target"))));
  }
  std::string HealthProblem() {
    const auto problem = mounter_.HealthProblem(Path("target"));
    EXPECT_OK(problem);
    return problem.ok() ? *problem : "";
  }
  std::string image_;
};

TEST_F(HealthProblemTest, HealthyHasNone) { EXPECT_EQ(HealthProblem(), ""); }

TEST_F(HealthProblemTest, OfAReadOnlyMountOfAHealthyOneIsNone) {
  MountRequest request = MountOf(image_, Path("ro"));
  request.flags = ReadOnly();
  ASSERT_OK(mounter_.Mount(request));
  EXPECT_EQ(*mounter_.HealthProblem(Path("ro")), "");
}

TEST_F(HealthProblemTest, DeletedBackingFile) {
  ASSERT_EQ(::unlink(image_.c_str()), 0);
  EXPECT_THAT(HealthProblem(), HasSubstr("deleted"));
}

TEST_F(HealthProblemTest, BackingFileCutShort) {
  ASSERT_EQ(::truncate(image_.c_str(), 8 * kMiB), 0);
  EXPECT_THAT(HealthProblem(), HasSubstr("cut short"));
  ASSERT_EQ(::truncate(image_.c_str(), 32 * kMiB), 0);
}

TEST_F(HealthProblemTest, FilesystemThatBecameReadOnly) {
  ASSERT_EQ(::mount(nullptr, Path("target").c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  EXPECT_THAT(HealthProblem(), HasSubstr("read-only"));
}

TEST_F(HealthProblemTest, Ext4ThatMetErrors) {
  const std::string device = LoopsOver(image_).front().device.substr(5);
  ASSERT_TRUE(Exists("/sys/fs/ext4/" + device + "/trigger_fs_error")) << "how this test makes an error";
  ASSERT_EQ(Tool("echo test > /sys/fs/ext4/" + device + "/trigger_fs_error"), 0);
  // ext4 counts it a moment later, on a work queue.
  std::string problem;
  for (int i = 0; i < 500 && problem.empty(); ++i) {
    problem = HealthProblem();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(problem, HasSubstr("error"));
}

TEST_F(HealthProblemTest, OfWhatIsNotMountedIsNotFound) {
  EXPECT_THAT(mounter_.HealthProblem(Dir("directory")), FailsWith(absl::StatusCode::kNotFound, Path("directory")));
}

}  // namespace
}  // namespace mooring::testing
