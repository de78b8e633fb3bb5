// resize2fs is killed while it grows an unmounted ext4. The volume is then as it was before, whenever that happens.
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

constexpr std::uint64_t kSmall = 32 * kMiB, kLarge = 256 * kMiB;

class GrowCutShortTest : public KernelTest {
 protected:
  void SetUp() override {
    image_ = Ext4Image("image", kSmall);
    ASSERT_OK(mounter_.Mount(MountOf(image_, Path("target"))));
    ASSERT_EQ(Tool("head -c 20000000 /dev/urandom > " + Path("target/file")), 0);
    data_ = ReadFile(Path("target/file"));
    ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
    ASSERT_TRUE(NoLoopOver(image_));
    ASSERT_EQ(::truncate(image_.c_str(), static_cast<off_t>(kLarge)), 0);
    ASSERT_EQ(Tool("e2fsck -fp " + image_ + " > /dev/null"), 0);
  }
  // Runs it like RunCommand, kills it before that write, and returns its exit status.
  int Resize(int killed_at) const {
    return Tool(fmt::format("KILL_AT={} LD_PRELOAD={} resize2fs -z {}.undo {} >/dev/null 2>&1", killed_at,
                            MOORING_KILL_AT_WRITE, image_, image_));
  }
  void ExpectUsable(std::uint64_t size) {
    EXPECT_EQ(Tool("e2fsck -fn " + image_ + " >/dev/null 2>&1"), 0);
    EXPECT_EQ(mounter_.Probe(image_)->size_bytes, size);
    ASSERT_OK(mounter_.Mount(MountOf(image_, Path("target"))));
    EXPECT_TRUE(ReadFile(Path("target/file")) == data_);
    ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
    EXPECT_TRUE(NoLoopOver(image_));
    EXPECT_FALSE(Exists(image_ + ".undo"));
  }
  std::string image_, data_;
};

TEST_F(GrowCutShortTest, CheckUndoesItAtAnyMoment) {
  ASSERT_EQ(Tool(fmt::format("cp --sparse=always {0} {0}.before", image_)), 0);
  int killed = 0;
  for (int at = 1;; at += at < 24 ? 1 : 7) {
    SCOPED_TRACE(fmt::format("killed before write {}", at));
    ASSERT_EQ(Tool(fmt::format("cp --sparse=always {0}.before {0}", image_)), 0);
    if (Resize(at) == 0) break;
    ++killed;
    if (Exists(image_ + ".undo")) {
      EXPECT_TRUE(mounter_.Probe(image_)->needs_check);
    }
    ASSERT_OK(mounter_.Check(image_, "ext4"));
    ExpectUsable(kSmall);
    if (HasFailure()) return;
  }
  EXPECT_GT(killed, 20) << "or the moments were not where it writes";
}

TEST_F(GrowCutShortTest, NextGrowthUndoesAndRepeatsIt) {
  ASSERT_NE(Resize(60), 0);
  ASSERT_OK(mounter_.Grow(image_, "ext4"));
  ExpectUsable(kLarge);
}

TEST_F(GrowCutShortTest, GrowthWithoutItsLastStepIsRepeated) {
  ASSERT_EQ(Resize(100000), 0);
  ASSERT_TRUE(Exists(image_ + ".undo"));
  ASSERT_OK(mounter_.Grow(image_, "ext4"));
  ExpectUsable(kLarge);
}

// e2fsck 1.47.0 crashes then. A check needs no undo file, and a growth is not begun.
TEST_F(GrowCutShortTest, NoInodeIsLeftForTheUndoFile) {
  const std::string disk = Path("disk");
  ASSERT_EQ(Tool(fmt::format("mkdir {0} && mount -t tmpfs -o nr_inodes=3 none {0}", disk)), 0);
  ASSERT_EQ(Tool(fmt::format("cp --sparse=always {} {}/image && : > {}/last", image_, disk, disk)), 0);
  image_ = disk + "/image";
  ASSERT_OK(mounter_.Check(image_, "ext4"));
  EXPECT_THAT(mounter_.Grow(image_, "ext4"), FailsWith(StatusCode::kResourceExhausted, "image.undo"));
  ExpectUsable(kSmall);
  EXPECT_EQ(Tool("umount " + disk), 0);
}

TEST_F(GrowCutShortTest, IsNeitherMountedNorAttachedNorFormatted) {
  ASSERT_NE(Resize(60), 0);
  EXPECT_THAT(mounter_.Mount(MountOf(image_, Path("target"))), Refused("cut short"));
  EXPECT_THAT(mounter_.AttachLoop({.backing_file = image_, .label = "x", .read_only = true}), Refused("cut short"));
  EXPECT_THAT(mounter_.Format({image_, "ext4"}), Refused("holds ext4"));
  EXPECT_TRUE(NoLoopOver(image_));
  ASSERT_OK(mounter_.Check(image_, "ext4"));
  ExpectUsable(kSmall);
}

TEST_F(GrowCutShortTest, InvalidUndoFileUndoesNothing) {
  File("image.undo", "half a header");
  ASSERT_OK(mounter_.Check(image_, "ext4"));
  ExpectUsable(kSmall);
}

TEST_F(GrowCutShortTest, FailedUndoKeepsEverythingAndAdvises) {
  ASSERT_NE(Resize(60), 0);
  PutOnPath("e2undo", "echo 'IO error during replay; run fsck NOW!'");  // as 1.47 ends with -f
  EXPECT_THAT(mounter_.Check(image_, "ext4"), Refused("IO error during replay"));
  EXPECT_TRUE(Exists(image_ + ".undo")) << "the only way back";
  PutOnPath("e2undo", "exit 1");
  EXPECT_THAT(mounter_.Check(image_, "ext4"), Refused("e2undo -f " + image_ + ".undo " + image_));
  EXPECT_TRUE(Exists(image_ + ".undo"));
  RestorePath();
  ASSERT_OK(mounter_.Check(image_, "ext4"));
  ExpectUsable(kSmall);
}

// This is for hosts where the kernel does not grow it.
TEST_F(GrowCutShortTest, FailureIsUndoneAtOnceWhereTheHelperSurvives) {
  if (HasCapSysResource()) GTEST_SKIP() << "here the kernel grows it, no program does";
  PutOnPath("resize2fs",
            fmt::format("KILL_AT=60 LD_PRELOAD={} exec /usr/sbin/resize2fs \"$@\"", MOORING_KILL_AT_WRITE));
  EXPECT_THAT(mounter_.Grow(image_, "ext4"), FailsWith(StatusCode::kAborted, "resize2fs"));
  ExpectUsable(kSmall);
  RestorePath();
  ASSERT_OK(mounter_.Grow(image_, "ext4"));
  ExpectUsable(kLarge);
}

}  // namespace
}  // namespace mooring::testing
