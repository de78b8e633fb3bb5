// NodeGetVolumeStats and NodeExpandVolume.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

class NodeStatsTest : public NodeVolumesTest {};
class NodeExpandTest : public NodeVolumesTest {};

TEST_F(NodeStatsTest, ShorterOrUnknownImageIsAProblem) {
  ASSERT_OK(Stage(StageAt("/staging/a", BlockCapability())));
  GrowImage(kVolume, 1 * kMebi);
  EXPECT_THAT(volumes_->Stats(kVolume, "/staging/a")->problem, HasSubstr("cut short"));
  source_.Forget(kVolume);
  EXPECT_THAT(volumes_->Stats(kVolume, "/staging/a")->problem, HasSubstr("does not exist"));
}

TEST_F(NodeStatsTest, DamagedFilesystemReportsItsProblem) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  mounter_.With([](FakeKernel& kernel) { kernel.Node(Image(kVolume)).filesystem.health_problem = "errors were met"; });
  EXPECT_EQ(volumes_->Stats(kVolume, "/staging/a")->problem, "errors were met");
}

TEST_F(NodeStatsTest, HangingFilesystemHasProblemAndNoStats) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  mounter_.With([](FakeKernel& kernel) {
    kernel.SetFailure("/staging/a", "Input/output error");
    kernel.Node(Image(kVolume)).filesystem.health_problem = "it answers nothing";
  });
  const absl::StatusOr<VolumeStats> stats = volumes_->Stats(kVolume, "/staging/a");
  ASSERT_OK(stats);
  EXPECT_EQ(stats->problem, "it answers nothing");
  EXPECT_THAT(mounter_.Calls("Stats"), IsEmpty());
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(StatusCode::kFailedPrecondition, "Input/output error"));
  EXPECT_THAT(Publish(PublishAt("/pods/t")), FailsWith(StatusCode::kFailedPrecondition, "Input/output error"));
  EXPECT_OK(Unstage("/staging/a"));
}

TEST_F(NodeStatsTest, StatsDoNotWaitForOtherCalls) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  const auto held = locks_.Acquire(kVolume, "volume", Call::WithLongestWait().wait_until);
  ASSERT_OK(held);
  EXPECT_OK(volumes_->Stats(kVolume, "/staging/a"));
}

TEST_F(NodeExpandTest, StackedDeviceGrowsAfterVolumesDevice) {
  const Capability block = BlockCapability(AccessMode::kMultiNodeMultiWriter);
  ASSERT_OK(Stage(StageAt("/staging/a", block)));
  ASSERT_OK(Publish(ReadOnly(PublishAt("/pods/ro", block))));
  GrowImage(kVolume, 128 * kMebi);
  EXPECT_OK(Expand("/pods/ro", 128 * kMebi));
  EXPECT_EQ(volumes_->Stats(kVolume, "/pods/ro")->usage.bytes.total, 128 * kMebi);
  EXPECT_THAT(mounter_.Calls("Grow"), IsEmpty());
}

// It has no label with its volume, only the name of the file or of the device below.
TEST_F(NodeExpandTest, HangingDeviceIsFoundByItsFile) {
  LoopInfo own, hung;
  own.device = "/dev/loop1";
  own.label = LabelFor(kVolume);
  own.backing_inode = 7;
  hung.device = "/dev/loop2";
  for (const char* file : {"/images/vol-a.img", "/dev/loop1"}) {
    hung.label = file;
    EXPECT_THAT(CheckNoneHangs(kVolume, {hung, own}), FailsWith(StatusCode::kDeadlineExceeded, "/dev/loop2")) << file;
    EXPECT_OK(CheckNoneHangs("vol-b", {hung, own})) << file;
  }
  EXPECT_OK(CheckNoneHangs(kVolume, {own}));
}

TEST_F(NodeExpandTest, NextCallFinishesFailedExpand) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  GrowImage(kVolume, 128 * kMebi);
  for (const char* operation : {"Find", "FindLoops", "ResizeLoop", "Grow"}) {
    mounter_.Fail(operation, Internal("injected"));
    EXPECT_THAT(Expand("/staging/a"), FailsWith(StatusCode::kInternal, "injected")) << operation;
  }
  EXPECT_OK(Expand("/staging/a"));
  EXPECT_EQ(Filesystem(kVolume).size_bytes, 128 * kMebi);
}

// An undamaged filesystem is usable at its old size.
class NodeCannotGrowTest : public NodeVolumesTest {};

TEST_F(NodeCannotGrowTest, StageMountsUndamagedFilesystemThatCannotGrow) {
  for (const std::string type : {"ext4", "xfs", "btrfs"}) {
    const std::string id = "vol-" + type, path = "/staging/" + type;
    AddVolume(id, type, 256 * kMebi);
    SetFormatted(id, type, 128 * kMebi);
    mounter_.With([&](FakeKernel& kernel) { kernel.AddDirectory(path); });
    mounter_.Fail("Grow", Internal("no room for that"));
    EXPECT_OK(Stage(StageAt(path, MountCapability(), id))) << type;
    EXPECT_TRUE(IsMounted(path));
    EXPECT_OK(Stage(StageAt(path, MountCapability(), id))) << "again";
  }
}

TEST_F(NodeCannotGrowTest, DamagedFilesystemFailsStage) {
  SetFormatted(kVolume, "ext4", 32 * kMebi);
  const std::string before = World();
  mounter_.Fail("Grow", FailedPrecondition("e2fsck -p does not mend its errors"));
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(StatusCode::kFailedPrecondition, "does not mend"));
  mounter_.Fail("Grow", Internal("resize2fs was killed"));
  mounter_.Fail("Check", FailedPrecondition("e2fsck -p does not mend its errors"));
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(StatusCode::kFailedPrecondition, "does not mend"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeCannotGrowTest, FilesystemThatFailedWhileGrowingFailsStage) {
  AddVolume("vol-x", "xfs", 128 * kMebi);
  SetFormatted("vol-x", "xfs", 64 * kMebi);
  mounter_.Fail("Grow", Internal("grow the mounted xfs: Input/output error"));
  const std::shared_ptr<Gate> growing = mounter_.Hold("Grow");
  absl::Status staged;
  std::thread stager([&] { staged = Stage(StageAt("/staging/a", MountCapability(), "vol-x")); });
  EXPECT_TRUE(growing->WaitUntilReached());
  mounter_.With([](FakeKernel& kernel) { kernel.SetFailure("/staging/a", "Input/output error"); });
  growing->Open();
  stager.join();
  EXPECT_THAT(staged, FailsWith(StatusCode::kInternal, "xfs"));
  EXPECT_FALSE(IsMounted("/staging/a"));
}

TEST_F(NodeCannotGrowTest, TemporaryErrorFailsStage) {
  AddVolume("vol-x", "xfs", 128 * kMebi);
  SetFormatted("vol-x", "xfs", 64 * kMebi);
  for (const absl::Status& later : {absl::DeadlineExceededError("it hangs"), Aborted("another process has it")}) {
    mounter_.Fail("Grow", later);
    EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(), "vol-x")), FailsWith(later.code(), ""));
    EXPECT_FALSE(IsMounted("/staging/a"));
  }
}

TEST_F(NodeCannotGrowTest, StatsAndListsReportUnusedRoom) {
  SetFormatted(kVolume, "ext4", 64 * kMebi);
  ASSERT_OK(Stage(StageAt("/staging/a")));
  GrowImage(kVolume, 128 * kMebi);
  EXPECT_EQ(volumes_->Stats(kVolume, "/staging/a")->problem, "") << "NodeExpandVolume comes next";
  mounter_.Fail("Grow", FailedPrecondition("the kernel wants CAP_SYS_RESOURCE"));
  EXPECT_THAT(Expand("/staging/a", 128 * kMebi), FailsWith(StatusCode::kFailedPrecondition, "CAP_SYS_RESOURCE"));
  EXPECT_THAT(volumes_->Stats(kVolume, "/staging/a")->problem, HasSubstr("64 MiB smaller than the volume"));
  EXPECT_THAT(volumes_->FindProblems({kVolume})->at(kVolume), HasSubstr("64 MiB smaller than the volume"));
  EXPECT_OK(Expand("/staging/a", 128 * kMebi));
  EXPECT_EQ(volumes_->Stats(kVolume, "/staging/a")->problem, "");
}

TEST_F(NodeCannotGrowTest, ExpandFailsWithCodeThatCsiAllows) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  GrowImage(kVolume, 128 * kMebi);
  for (const absl::Status& cause : {InvalidArgument("too small"), ResourceExhausted("no room")}) {
    mounter_.Fail("Grow", cause);
    EXPECT_THAT(Expand("/staging/a"), FailsWith(StatusCode::kFailedPrecondition, Message(cause)));
  }
  mounter_.Fail("Grow", OutOfRange("256 MiB at least"));
  EXPECT_THAT(Expand("/staging/a"), FailsWith(StatusCode::kOutOfRange, "256 MiB"));
}

}  // namespace
}  // namespace mooring::testing
