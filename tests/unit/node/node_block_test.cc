// Raw block volumes: which loop devices are made, shared, stacked and detached, and when.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class NodeBlockTest : public NodeVolumesTest {
 protected:
  static PublishSpec ReadOnlyAt(const std::string& target, AccessMode mode = AccessMode::kMultiNodeMultiWriter) {
    PublishSpec spec = PublishAt(target, BlockCapability(mode));
    spec.read_only = true;
    return spec;
  }
  static PublishSpec WritableAt(const std::string& target, AccessMode mode = AccessMode::kMultiNodeMultiWriter) {
    return PublishAt(target, BlockCapability(mode));
  }
  void StageIt(const std::string& path = "/staging/a") {
    ASSERT_OK(Stage(StageAt(path, BlockCapability(AccessMode::kMultiNodeMultiWriter))));
  }
  std::vector<std::string> Labels() {
    std::vector<std::string> labels;
    for (const LoopInfo& loop : Loops()) labels.push_back(loop.label);
    return labels;
  }
};

TEST_F(NodeBlockTest, StageAttachesOneDeviceAndMountsNothing) {
  for (int i = 0; i < 10; ++i) StageIt();
  EXPECT_EQ(MountCount(), 0U);
  ASSERT_THAT(Labels(), ElementsAre("mooring:vol-a"));
  EXPECT_FALSE(Loops()[0].auto_clear);
  EXPECT_EQ(store_->Get("/staging/a").value()->device, "/dev/loop0");
  ASSERT_OK(Unstage("/staging/a"));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, StagingPathsShareDeviceUntilLastUnstage) {
  StageIt("/staging/a");
  StageIt("/staging/b");
  EXPECT_THAT(Loops(), SizeIs(1));
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_THAT(Loops(), SizeIs(1));
  ASSERT_OK(Unstage("/staging/b"));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, OtherCapabilityAtSamePathAlreadyExists) {
  StageIt();
  const std::string before = World();
  EXPECT_THAT(Stage(StageAt("/staging/a", BlockCapability())), FailsWith(StatusCode::kAlreadyExists, "/staging/a"));
  EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability())), FailsWith(StatusCode::kAlreadyExists, "/staging/a"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeBlockTest, StagingPathOfAnotherVolumeIsRefused) {
  AddVolume("vol-b");
  StageIt();
  const std::string before = World();
  for (const Capability& capability : {MountCapability(), BlockCapability(AccessMode::kMultiNodeMultiWriter)}) {
    EXPECT_THAT(Stage(StageAt("/staging/a", capability, "vol-b")),
                FailsWith(StatusCode::kFailedPrecondition, "volume vol-a"));
  }
  EXPECT_EQ(World(), before);
}

TEST_F(NodeBlockTest, RecordWithoutDeviceDoesNotBlockStagingPath) {
  AddVolume("vol-b");
  StageIt();
  mounter_.With([](FakeKernel& kernel) { kernel.Reboot(); });
  EXPECT_OK(Stage(StageAt("/staging/a", MountCapability(), "vol-b")));
  EXPECT_THAT(Labels(), ElementsAre("mooring:vol-b"));
}

TEST_F(NodeBlockTest, BlockStageOfMountedVolumeIsRefused) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  const std::string before = World();
  EXPECT_THAT(Stage(StageAt("/staging/b", BlockCapability())),
              FailsWith(StatusCode::kFailedPrecondition, "filesystem"));
  EXPECT_THAT(Publish(PublishAt("/pods/t", BlockCapability())),
              FailsWith(StatusCode::kFailedPrecondition, "not staged"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeBlockTest, MountStageOfBlockVolumeIsRefused) {
  StageIt();
  const std::string before = World();
  EXPECT_THAT(Stage(StageAt("/staging/b")), FailsWith(StatusCode::kFailedPrecondition, "block device"));
  EXPECT_THAT(Publish(PublishAt("/pods/t")), FailsWith(StatusCode::kFailedPrecondition, "not staged"));
  EXPECT_EQ(World(), before);
  EXPECT_EQ(Filesystem(kVolume).content, FilesystemInfo::Content::kEmpty);
}

TEST_F(NodeBlockTest, StageDetachesUnusedBlockDevice) {
  StageIt();
  LoseRecords();
  EXPECT_OK(Stage(StageAt("/staging/a")));
  ASSERT_THAT(Loops(), SizeIs(1));
  EXPECT_TRUE(Loops()[0].auto_clear);
}

TEST_F(NodeBlockTest, StageKeepsBoundBlockDevice) {
  StageIt();
  ASSERT_OK(Publish(WritableAt("/pods/t")));
  LoseRecords();
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(StatusCode::kFailedPrecondition, "block device"));
  EXPECT_THAT(Loops(), SizeIs(1));
}

TEST_F(NodeBlockTest, PublishBindsDeviceOnNewFile) {
  StageIt();
  ASSERT_OK(Publish(WritableAt("/pods/t")));
  const FakeMount mount = MountsAt("/pods/t").at(0);
  EXPECT_TRUE(mount.is_device);
  EXPECT_EQ(mount.info.root, "/loop0");
  EXPECT_FALSE(mount.info.flags.read_only);
  EXPECT_EQ(mounter_.last_bind().target_kind, TargetKind::kFile);
  ASSERT_OK(Unpublish("/pods/t"));
  EXPECT_FALSE(Exists("/pods/t"));
}

TEST_F(NodeBlockTest, ReadOnlyTargetIsDeviceStackedOnVolumesDevice) {
  StageIt();
  ASSERT_OK(Publish(ReadOnlyAt("/pods/ro")));
  ASSERT_THAT(Labels(), ElementsAre("mooring:vol-a", "mooring-ro:vol-a"));
  EXPECT_TRUE(Loops()[1].read_only);
  EXPECT_EQ(Loops()[1].backing_rdev, Loops()[0].device_number);
  EXPECT_EQ(MountsAt("/pods/ro").at(0).info.root, "/loop1");
}

TEST_F(NodeBlockTest, ReaderModesAreReadOnlyWithoutReadonlyField) {
  ASSERT_OK(Stage(StageAt("/staging/a", BlockCapability(AccessMode::kMultiNodeReaderOnly))));
  ASSERT_OK(Publish(PublishAt("/pods/ro", BlockCapability(AccessMode::kMultiNodeReaderOnly))));
  EXPECT_EQ(MountsAt("/pods/ro").at(0).info.root, "/loop1");
}

TEST_F(NodeBlockTest, LastTargetDetachesStackedDeviceAndLastUnstageTheOther) {
  StageIt();
  ASSERT_OK(Publish(ReadOnlyAt("/pods/ro1")));
  ASSERT_OK(Publish(ReadOnlyAt("/pods/ro2")));
  ASSERT_OK(Publish(WritableAt("/pods/rw")));
  ASSERT_OK(Unpublish("/pods/ro1"));
  EXPECT_THAT(Loops(), SizeIs(2));
  ASSERT_OK(Unpublish("/pods/ro2"));
  EXPECT_THAT(Labels(), ElementsAre("mooring:vol-a"));
  ASSERT_OK(Unpublish("/pods/rw"));
  EXPECT_THAT(Labels(), ElementsAre("mooring:vol-a"));
  ASSERT_OK(Unstage("/staging/a"));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, LastTargetDetachesBothDevicesAfterUnstage) {
  StageIt();
  ASSERT_OK(Publish(ReadOnlyAt("/pods/ro")));
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_THAT(Loops(), SizeIs(2));
  mounter_.ClearLog();
  ASSERT_OK(Unpublish("/pods/ro"));
  EXPECT_THAT(mounter_.Calls("DetachLoop"), ElementsAre("DetachLoop /dev/loop1", "DetachLoop /dev/loop0"));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, WritableTargetKeepsDeviceAfterUnstage) {
  StageIt();
  ASSERT_OK(Publish(WritableAt("/pods/rw")));
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_THAT(Labels(), ElementsAre("mooring:vol-a"));
  StageIt();
  EXPECT_THAT(Loops(), SizeIs(1));
  ASSERT_OK(Unstage("/staging/a"));
  ASSERT_OK(Unpublish("/pods/rw"));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, BoundDevicesStayWithoutRecords) {
  StageIt();
  ASSERT_OK(Publish(WritableAt("/pods/rw")));
  ASSERT_OK(Publish(ReadOnlyAt("/pods/ro")));
  LoseRecords();
  StageIt();
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_THAT(Loops(), SizeIs(2));
  ASSERT_OK(Unpublish("/pods/rw"));
  EXPECT_THAT(Loops(), SizeIs(2)) << "the stacked one needs the volume's";
  ASSERT_OK(Unpublish("/pods/ro"));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, PublishWithoutRecordsUsesExistingDevice) {
  StageIt();
  LoseRecords();
  ASSERT_OK(Publish(WritableAt("/pods/rw")));
  EXPECT_THAT(Loops(), SizeIs(1));
  ASSERT_OK(Unpublish("/pods/rw"));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, PublishWithoutStageIsRefused) {
  EXPECT_THAT(Publish(WritableAt("/pods/t")),
              FailsWith(StatusCode::kFailedPrecondition, "NodeStageVolume comes first"));
  EXPECT_FALSE(Exists("/pods/t"));
}

TEST_F(NodeBlockTest, PublishFromOtherStagingPathIsRefused) {
  StageIt();
  const std::string before = World();
  EXPECT_THAT(Publish(PublishAt("/pods/t", BlockCapability(), "/staging/b")),
              FailsWith(StatusCode::kFailedPrecondition, "staged elsewhere"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeBlockTest, DeviceOfAnotherProgramIsNotPublished) {
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignLoop(Image(kVolume), "theirs"); });
  const std::string before = World();
  EXPECT_THAT(Publish(WritableAt("/pods/t")), FailsWith(StatusCode::kFailedPrecondition, "in use otherwise"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeBlockTest, TargetOfReadOnlyStagingIsReadOnly) {
  StageSpec spec = StageAt("/staging/a", BlockCapability(AccessMode::kMultiNodeMultiWriter));
  spec.read_only = true;
  ASSERT_OK(Stage(spec));
  ASSERT_OK(Publish(WritableAt("/pods/t")));
  EXPECT_TRUE(FlagsAt("/pods/t").read_only);
  EXPECT_THAT(Loops(), SizeIs(2)) << "the device itself is read-only";
}

TEST_F(NodeBlockTest, UnstageOfKnownOtherVolumeIsRefusedAndOfUnknownVolumeIsOk) {
  AddVolume("vol-b");
  StageIt();
  const std::string before = World();
  EXPECT_THAT(Unstage("/staging/a", "vol-b"), FailsWith(StatusCode::kFailedPrecondition, "in use for volume vol-a"));
  EXPECT_EQ(World(), before);
  const auto working = locks_.Acquire(kVolume, "volume", std::chrono::steady_clock::now());
  EXPECT_THAT(volumes_->Unstage(kUnknown, "/staging/a", {std::chrono::steady_clock::now()}),
              FailsWith(StatusCode::kAborted, kVolume))
      << "it is the other volume that is unstaged";
}

TEST_F(NodeBlockTest, UnstageWithUnknownIdLeavesNothing) {
  StageIt();
  ASSERT_OK(Unstage("/staging/a", kUnknown));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, StageThatCannotBeRecordedIsUndone) {
  const std::string before = World();
  RefuseOutcomes();
  EXPECT_FALSE(Stage(StageAt("/staging/a", BlockCapability())).ok());
  EXPECT_EQ(World(), before);
}

TEST_F(NodeBlockTest, RecordedDeviceOfAnotherFileIsNotUsed) {
  StageIt();
  mounter_.With([](FakeKernel& kernel) {
    kernel.Reboot();
    kernel.AddForeignLoop("/images/other", "theirs");
  });
  EXPECT_THAT(Publish(WritableAt("/pods/t")), FailsWith(StatusCode::kFailedPrecondition, "no device"));
  ASSERT_OK(Unstage("/staging/a"));
  ASSERT_THAT(Labels(), ElementsAre("theirs"));
  EXPECT_FALSE(Loops()[0].auto_clear);
}

TEST_F(NodeBlockTest, ReadOnlyPublishAtWritableTargetAlreadyExists) {
  StageIt();
  ASSERT_OK(Publish(WritableAt("/pods/t")));
  const std::string before = World();
  EXPECT_THAT(Publish(ReadOnlyAt("/pods/t")), FailsWith(StatusCode::kAlreadyExists, "/pods/t"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeBlockTest, RefusedReadOnlyTargetAttachesNoDevice) {
  AddVolume("vol-b");
  StageIt();
  ASSERT_OK(Stage(StageAt("/staging/b", BlockCapability(), "vol-b")));
  ASSERT_OK(Publish(PublishAt("/pods/b", BlockCapability(), "/staging/b", "vol-b")));
  ASSERT_OK(Publish(WritableAt("/pods/t", AccessMode::kSingleNodeWriter)));
  mounter_.With([](FakeKernel& kernel) {
    kernel.AddForeignMount("/pods/foreign", "tmpfs");
    kernel.AddDirectory("/pods/directory");
    kernel.AddFile("/pods/full", 7);
  });
  const std::string before = World();
  for (const char* target : {"/pods/b", "/pods/foreign", "/pods/directory", "/pods/full", "/pods/second"}) {
    EXPECT_FALSE(Publish(ReadOnlyAt(target, AccessMode::kSingleNodeWriter)).ok()) << target;
    EXPECT_EQ(World(), before) << target;
  }
}

TEST_F(NodeBlockTest, WritablePublishAtReadOnlyTargetAlreadyExists) {
  StageIt();
  ASSERT_OK(Publish(ReadOnlyAt("/pods/t")));
  const std::string before = World();
  EXPECT_THAT(Publish(WritableAt("/pods/t")), FailsWith(StatusCode::kAlreadyExists, "/pods/t"));
  EXPECT_THAT(Publish(PublishAt("/pods/t")), FailsWith(StatusCode::kAlreadyExists, "/pods/t"));
  EXPECT_OK(Publish(ReadOnlyAt("/pods/t")));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeBlockTest, TargetMustBeEmptyFileOrMissing) {
  StageIt();
  mounter_.With([](FakeKernel& kernel) {
    kernel.AddFile("/pods/file", 0);
    kernel.AddFile("/pods/full", 1);
    kernel.AddSymlink("/pods/link");
  });
  EXPECT_OK(Publish(WritableAt("/pods/file")));
  const std::string before = World();
  EXPECT_THAT(Publish(WritableAt("/pods/full")), FailsWith(StatusCode::kFailedPrecondition, "/pods/full"));
  EXPECT_THAT(Publish(WritableAt("/pods/link")), FailsWith(StatusCode::kFailedPrecondition, "/pods/link"));
  EXPECT_EQ(World(), before);
}

// kubelet stacks a loop device of its own on each block volume.
TEST_F(NodeBlockTest, DeviceIsDetachedWithDeviceOnTopOfIt) {
  StageIt();
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignLoop("/dev/loop0", "kubelet"); });
  ASSERT_OK(Publish(ReadOnlyAt("/pods/ro")));
  EXPECT_EQ(MountsAt("/pods/ro").at(0).info.root, "/loop2");
  ASSERT_OK(Unpublish("/pods/ro"));
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_THAT(Labels(), ElementsAre("mooring:vol-a", "kubelet"));
  ASSERT_OK(mounter_.DetachLoop(Loops().at(1)));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, FailedRepeatedStageKeepsFirstRecord) {
  StageIt();
  const std::string before = World();
  mounter_.Fail("AttachLoop", Internal("injected"));
  EXPECT_THAT(Stage(StageAt("/staging/a", BlockCapability(AccessMode::kMultiNodeMultiWriter))),
              FailsWith(StatusCode::kInternal, "injected"));
  EXPECT_EQ(World(), before);
  ASSERT_OK(Unstage("/staging/a"));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, NextStageFinishesInterruptedStage) {
  VolumeUse intent;
  intent.path = "/staging/a";
  intent.volume_id = kVolume;
  intent.role = VolumeUse::Role::kStage;
  intent.access_type = AccessType::kBlock;
  intent.mode = AccessMode::kMultiNodeMultiWriter;
  intent.capability = ToString(BlockCapability(AccessMode::kMultiNodeMultiWriter));
  ASSERT_OK(store_->Put(intent));
  StageIt();
  EXPECT_TRUE(store_->Get("/staging/a").value()->done);
  ASSERT_OK(Unstage("/staging/a"));
  ExpectNothingLeft();
}

}  // namespace
}  // namespace mooring::testing
