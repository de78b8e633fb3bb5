// Check, Grow, Stats and HealthProblem.
#include <atomic>
#include <thread>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

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

TEST_F(UpkeepTest, CheckAndGrowRefuseOtherErrorsWithAdvice) {
  const std::string image = Ext4Image("image");
  ASSERT_EQ(Tool("debugfs -w -R 'clri <2>' " + image + " 2>/dev/null"), 0);  // the root directory
  ASSERT_EQ(Tool("debugfs -w -R 'set_super_value state 3' " + image + " 2>/dev/null"), 0);
  EXPECT_THAT(mounter_.Check(image, "ext4"), Refused("e2fsck -f " + image));
  EXPECT_TRUE(NeedsCheck(image));
  ASSERT_EQ(::truncate(image.c_str(), 64 * kMiB), 0);
  EXPECT_THAT(mounter_.Grow(image, "ext4"), Refused("e2fsck -f " + image));
}

TEST_F(UpkeepTest, CheckOfZeroesIsRefused) {
  const std::string image = Ext4Image("image");
  Overwrite(image, 0, std::string(2 * kMiB, '\0'));
  EXPECT_THAT(mounter_.Check(image, "ext4"), Refused(image));
}

TEST_F(UpkeepTest, CheckAndGrowOfAnUnknownTypeAreRefused) {
  EXPECT_THAT(mounter_.Check(Ext4Image("image"), "ntfs"), FailsWith(StatusCode::kInvalidArgument, "ntfs"));
  ASSERT_OK(mounter_.Mount(MountOf(Path("image"), Path("target"))));
  EXPECT_THAT(mounter_.Grow(Path("target"), "ntfs"), FailsWith(StatusCode::kInvalidArgument, "ntfs"));
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

// A power cut while an xfs grows can lose copies of its superblock. xfs_repair would trust these.
TEST_F(UpkeepTest, GrowWritesOldCopiesOfAnXfsSuperblockAgain) {
  const std::string image = XfsImage("image"), check = "xfs_repair -n " + image + " >/dev/null 2>&1";
  ASSERT_EQ(Tool("xfs_db -x -c 'sb 1' -c 'write -d dblocks 19200' " + image + " >/dev/null"), 0);
  ASSERT_NE(Tool(check), 0);
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"), "xfs")));
  EXPECT_OK(mounter_.Grow(Path("target"), "xfs"));
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
  EXPECT_TRUE(NoLoopOver(image));
  EXPECT_EQ(Tool(check), 0);
}

TEST_F(UpkeepTest, UnmountedXfsAndBtrfsAreNotGrown) {
  EXPECT_THAT(mounter_.Grow(XfsImage("xfs"), "xfs"), Refused("mounted"));
  EXPECT_THAT(mounter_.Grow(BtrfsImage("btrfs"), "btrfs"), Refused("mounted"));
}

class MountedGrowTest : public UpkeepTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::uint64_t SizeOf(const std::string& image) { return mounter_.Probe(image)->size_bytes; }
};

TEST_P(MountedGrowTest, KeepsTheData) {
  const std::string image = ImageOf(GetParam(), "image");
  const std::uint64_t before = SizeOf(image);
  MountAndEnlarge(image, GetParam());
  ASSERT_EQ(TryWrite(Path("target/file"), "data"), 0);
  ASSERT_OK(mounter_.Grow(Path("target"), GetParam()));
  EXPECT_GT(BytesAt(Path("target")), before + before / 2);
  EXPECT_EQ(ReadFile(Path("target/file")), "data");
  EXPECT_OK(mounter_.Grow(Path("target"), GetParam())) << "again";
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
  EXPECT_EQ(SizeOf(image), 2 * before);
}

TEST_P(MountedGrowTest, ThroughAReadOnlyMountThatStaysReadOnly) {
  const std::string image = ImageOf(GetParam(), "image");
  const std::uint64_t before = SizeOf(image);
  MountAndEnlarge(image, GetParam(), ReadOnly());
  ASSERT_OK(mounter_.Grow(Path("target"), GetParam()));
  EXPECT_GT(BytesAt(Path("target")), before + before / 2);
  EXPECT_EQ(OptionsAt(Path("target")), "ro,relatime");
  EXPECT_EQ(TryWrite(Path("target/file"), "x"), EROFS);
}

INSTANTIATE_TEST_SUITE_P(Types, MountedGrowTest, ::testing::Values("xfs", "btrfs"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(UpkeepTest, GrowOfAMountedExt4NeedsCapSysResourceAndSaysSo) {
  MountAndEnlarge(Ext4Image("image", 32 * kMiB), "ext4");
  const absl::Status status = mounter_.Grow(Path("target"), "ext4");
  if (HasCapSysResource()) {
    EXPECT_OK(status);
    EXPECT_GT(BytesAt(Path("target")), 48 * kMiB);
  } else {
    EXPECT_THAT(status, Refused("CAP_SYS_RESOURCE"));
    EXPECT_LT(BytesAt(Path("target")), 32 * kMiB);
  }
}

TEST_F(UpkeepTest, GrowOfAMountedExt4ThatHasMetErrorsSaysThat) {
  const std::string image = Ext4Image("image", 32 * kMiB);
  MountAndEnlarge(image, "ext4");
  const std::string sysfs = "/sys/fs/ext4/" + LoopsOver(image).front().device.substr(5);
  ASSERT_EQ(Tool("echo test > " + sysfs + "/trigger_fs_error"), 0);
  ASSERT_TRUE(Eventually([&] { return ReadFile(sysfs + "/errors_count") != "0\n"; }));
  EXPECT_THAT(mounter_.Grow(Path("target"), "ext4"), Refused("errors"));
  EXPECT_THAT(mounter_.Grow(Path("target"), "ext4").ToString(), Not(HasSubstr("CAP_SYS_RESOURCE")));
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
  EXPECT_THAT(mounter_.Grow(Dir("directory"), "ext4"), Refused("is not a mount"))
      << "or it grows the host's own filesystem";
  EXPECT_THAT(mounter_.Grow(Path("missing"), "ext4"), FailsWith(StatusCode::kNotFound, Path("missing")));
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
  EXPECT_THAT(mounter_.Stats(Dir("directory")), FailsWith(StatusCode::kNotFound, Path("directory")))
      << "or they are the host's";
  EXPECT_THAT(mounter_.Stats(File("file")), FailsWith(StatusCode::kNotFound, Path("file")));
  EXPECT_THAT(mounter_.Stats(Path("missing")), FailsWith(StatusCode::kNotFound, Path("missing")));
  EXPECT_THAT(mounter_.Stats(Path("no/parent")), FailsWith(StatusCode::kNotFound, Path("no")));
}

// Puts a program of e2fsprogs that starts a second late on the PATH of this process.
// While another thread unmounts it, the path leads to the filesystem below.
TEST_F(UpkeepTest, ABtrfsThatIsUnmountedMeanwhileIsNotFound) {
  ASSERT_OK(mounter_.Mount(MountOf(BtrfsImage("image"), Path("staged"), "btrfs")));
  std::atomic<bool> stop = false;
  std::thread task([&] {
    while (!stop) {
      EXPECT_OK(mounter_.Bind(BindOf(Path("staged"), Path("target"))));
      EXPECT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
    }
  });
  int found = 0;
  constexpr int kLooks = 4000, kMostLooks = 1000000;  // the task may get no processor for a while
  for (int look = 0; look < kLooks || (found == 0 && look < kMostLooks); ++look) {
    const absl::Status status = mounter_.HealthProblem(Path("target")).status();
    found += status.ok() ? 1 : 0;
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  }
  stop = true;
  task.join();
  EXPECT_GT(found, 0);
}

class SlowToolTest : public UpkeepTest {
 protected:
  void SlowDown(const std::string& tool) {
    PutOnPath(tool, fmt::format("touch {}\nsleep 1\nexec /usr/sbin/{} \"$@\"", Path("started"), tool));
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
};

// "Corrected, and the system should be rebooted": of a mounted one, which this is not.
TEST_F(SlowToolTest, CheckThatCorrectedErrorsSucceedsWhateverItsExitCode) {
  if (HasCapSysResource()) GTEST_SKIP() << "here the kernel grows it, no program does";
  const std::string image = Ext4Image("image");
  ASSERT_EQ(::truncate(image.c_str(), 64 * kMiB), 0);
  PutOnPath("e2fsck", "/usr/sbin/e2fsck \"$@\" || exit\n[ \"$1\" = -n ] || exit 3");
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
  EXPECT_THAT(mounter_.Check(image, "ext4"), Refused(device));
  EXPECT_THAT(mounter_.Grow(image, "ext4"), Refused(device));
}

TEST_F(UpkeepTest, BtrfsHealthTellsErrorsOfTheDevice) {
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
}

class HealthProblemTest : public UpkeepTest {
 protected:
  void SetUp() override {
    image_ = Ext4Image("image");
    ASSERT_OK(mounter_.Mount(MountOf(image_, Path("target"))));
  }
  std::string Problem() { return mounter_.HealthProblem(Path("target")).value(); }
  std::string image_;
};

TEST_F(HealthProblemTest, HealthyFilesystemHasNone) {
  EXPECT_EQ(Problem(), "");
  MountRequest request = MountOf(image_, Path("ro"));
  request.flags = ReadOnly();
  ASSERT_OK(mounter_.Mount(request));
  EXPECT_EQ(*mounter_.HealthProblem(Path("ro")), "");
}

TEST_F(HealthProblemTest, DeletedBackingFile) {
  ASSERT_EQ(::unlink(image_.c_str()), 0);
  EXPECT_THAT(Problem(), HasSubstr("deleted"));
}

TEST_F(HealthProblemTest, BackingFileCutShort) {
  ASSERT_EQ(::truncate(image_.c_str(), 8 * kMiB), 0);
  EXPECT_THAT(Problem(), HasSubstr("cut short"));
  ASSERT_EQ(::truncate(image_.c_str(), 32 * kMiB), 0);
}

TEST_F(HealthProblemTest, FilesystemThatBecameReadOnly) {
  ASSERT_EQ(::mount(nullptr, Path("target").c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  EXPECT_THAT(Problem(), HasSubstr("read-only"));
}

TEST_F(HealthProblemTest, Ext4ThatMetErrors) {
  const std::string device = LoopsOver(image_).front().device.substr(5);
  ASSERT_TRUE(Exists("/sys/fs/ext4/" + device + "/trigger_fs_error")) << "how this test makes an error";
  ASSERT_EQ(Tool("echo test > /sys/fs/ext4/" + device + "/trigger_fs_error"), 0);
  // ext4 counts it a moment later, on a work queue.
  std::string problem;
  for (int i = 0; i < 500 && problem.empty(); ++i) {
    problem = Problem();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(problem, HasSubstr("error"));
}

TEST_F(HealthProblemTest, DirectoryThatIsNotMounted) {
  EXPECT_THAT(mounter_.HealthProblem(Dir("directory")), FailsWith(StatusCode::kNotFound, Path("directory")));
}

}  // namespace
}  // namespace mooring::testing
