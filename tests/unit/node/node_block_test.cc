// Raw block volumes: which loop devices are made, shared, stacked and detached, and when.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

class NodeBlockTest : public NodeVolumesTest {
 protected:
  static Capability Many() { return BlockCapability(AccessMode::kMultiNodeMultiWriter); }
  static PublishSpec WritableAt(const std::string& target) { return PublishAt(target, Many()); }
  static PublishSpec ReadOnlyAt(const std::string& target) { return ReadOnly(WritableAt(target)); }
  void StageIt() { ASSERT_OK(Stage(StageAt("/staging/a", Many()))); }
  std::vector<std::string> Labels() {
    std::vector<std::string> labels;
    for (const LoopInfo& loop : Loops()) labels.push_back(loop.label);
    return labels;
  }
};

TEST_F(NodeBlockTest, StagingPathsShareDeviceUntilLastUnstage) {
  StageIt();
  ASSERT_OK(Stage(StageAt("/staging/b", Many())));
  EXPECT_THAT(Loops(), SizeIs(1));
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_THAT(Loops(), SizeIs(1));
  ASSERT_OK(Unstage("/staging/b"));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, RecordWithoutDeviceDoesNotBlockStagingPath) {
  AddVolume("vol-b");
  StageIt();
  mounter_.With([](FakeKernel& kernel) { kernel.Reboot(); });
  EXPECT_OK(Stage(StageAt("/staging/a", MountCapability(), "vol-b")));
  EXPECT_THAT(Labels(), ElementsAre("mooring:vol-b"));
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

TEST_F(NodeBlockTest, LastTargetDetachesBothDevicesAfterUnstage) {
  StageIt();
  ASSERT_OK(Publish(ReadOnlyAt("/pods/ro")));
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_THAT(Loops(), SizeIs(2));
  mounter_.ClearLog();
  ASSERT_OK(Unpublish("/pods/ro"));
  EXPECT_THAT(mounter_.Calls("DetachLoop"), ElementsAre("DetachLoop /dev/loop65538", "DetachLoop /dev/loop65536"));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, BoundDevicesStayWithoutRecords) {
  StageIt();
  ASSERT_OK(Publish(ReadOnlyAt("/pods/a")));
  ASSERT_OK(Publish(ReadOnlyAt("/pods/b")));
  LoseRecords();
  StageIt();
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_THAT(Loops(), SizeIs(3));
  ASSERT_OK(Unpublish("/pods/a"));
  EXPECT_THAT(Loops(), SizeIs(2)) << "the stacked one needs the volume's";
  ASSERT_OK(Unpublish("/pods/b"));
  ExpectNothingLeft();
}

// After a crash a device may carry no label, and a task may have written the label of another volume.
TEST_F(NodeBlockTest, DeviceWithoutAHoldIsFoundByItsFile) {
  StageIt();
  ASSERT_OK(Publish(WritableAt("/pods/t")));
  mounter_.With([](FakeKernel& kernel) { kernel.EndHolds(); });
  EXPECT_THAT(Labels(), ElementsAre(""));
  EXPECT_OK(Publish(WritableAt("/pods/t2")));
  EXPECT_THAT(Labels(), ElementsAre("mooring:vol-a"));
  mounter_.With([](FakeKernel& kernel) { kernel.EndHolds(); });
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(Labels(), ElementsAre("mooring:vol-a"));
  mounter_.With([](FakeKernel& kernel) { kernel.EndHolds(); });
  ASSERT_OK(Unpublish("/pods/t2"));
  ASSERT_OK(Unpublish("/pods/t"));
  ASSERT_OK(Unstage("/staging/a"));
  ExpectNothingLeft();
}

// A program of the host may have it open for a moment.
TEST_F(NodeBlockTest, ADetachedDeviceThatGoesJustNowIsNotMissed) {
  StageIt();
  ASSERT_OK(Publish(ReadOnlyAt("/pods/ro")));
  mounter_.With([](FakeKernel& kernel) { kernel.EndHolds(); });
  mounter_.Fail("HoldLoop", Aborted("it is detached"), 2);
  EXPECT_OK(Unstage("/staging/a"));
  EXPECT_FALSE(mounter_.HasFaults());
}

TEST_F(NodeBlockTest, UnstageFlushesAndFailsIfThatFails) {
  StageIt();
  ASSERT_OK(Stage(StageAt("/staging/b", Many())));
  mounter_.ClearLog();
  ASSERT_OK(Unstage("/staging/b"));
  EXPECT_THAT(mounter_.Calls("Flush"), ElementsAre("Flush /dev/loop65536")) << "although the device stays";
  mounter_.Fail("Flush", ResourceExhausted("no room"));
  EXPECT_THAT(Unstage("/staging/a"), FailsWith(StatusCode::kResourceExhausted, "no room"));
  EXPECT_THAT(Loops(), SizeIs(1));
  EXPECT_OK(Unstage("/staging/a"));
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

// Its last unstage has let the device go, and a task still has it open.
TEST_F(NodeBlockTest, PublishDoesNotUseADeviceThatGoes) {
  StageIt();
  mounter_.With([](FakeKernel& kernel) { kernel.EndHolds(); });
  LoseRecords();
  EXPECT_THAT(Publish(WritableAt("/pods/rw")), FailsWith(StatusCode::kFailedPrecondition, "it has no device"));
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
  ASSERT_OK(Stage(ReadOnly(StageAt("/staging/a", Many()))));
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

TEST_F(NodeBlockTest, WritablePublishAtReadOnlyTargetAlreadyExists) {
  StageIt();
  ASSERT_OK(Publish(ReadOnlyAt("/pods/t")));
  const std::string before = World();
  EXPECT_THAT(Publish(WritableAt("/pods/t")), FailsWith(StatusCode::kAlreadyExists, "/pods/t"));
  EXPECT_THAT(Publish(PublishAt("/pods/t")), FailsWith(StatusCode::kAlreadyExists, "/pods/t"));
  EXPECT_OK(Publish(ReadOnlyAt("/pods/t")));
  EXPECT_EQ(World(), before);
}

// kubelet stacks a loop device of its own on each block volume.
TEST_F(NodeBlockTest, DeviceIsDetachedWithDeviceOnTopOfIt) {
  StageIt();
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignLoop("/dev/loop65536", "kubelet"); });
  ASSERT_OK(Publish(ReadOnlyAt("/pods/ro")));
  ASSERT_OK(Unpublish("/pods/ro"));
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_THAT(Labels(), ElementsAre("kubelet", "mooring:vol-a"));
  ASSERT_OK(mounter_.DetachLoop(Loops().at(0)));
  ExpectNothingLeft();
}

TEST_F(NodeBlockTest, NextStageFinishesInterruptedStage) {
  VolumeUse intent;
  intent.path = "/staging/a";
  intent.volume_id = kVolume;
  intent.role = VolumeUse::Role::kStage;
  intent.access_type = AccessType::kBlock;
  intent.mode = AccessMode::kMultiNodeMultiWriter;
  intent.capability = ToString(Many());
  ASSERT_OK(store_->Put(intent));
  StageIt();
  EXPECT_TRUE(store_->Get("/staging/a").value()->done);
  ASSERT_OK(Unstage("/staging/a"));
  ExpectNothingLeft();
}

// A disk: its note must be there before a task can have it, also if the plugin is killed in between.
TEST_F(NodeVolumesTest, ADiskIsNotedAsRawBeforeItsTargetIsBound) {
  mounter_.With([](FakeKernel& kernel) { kernel.AddFile("/dev/fake1", kMebi); });
  source_.Put({.id = "vol-d", .kind = BackendKind::kDevice, .path = "/dev/fake1", .bytes = kMebi, .fs_type = "ext4"});
  const Capability block = BlockCapability(AccessMode::kSingleNodeMultiWriter);
  const PublishSpec spec = PublishAt("/pods/t", block, "/staging/a", "vol-d");
  ASSERT_OK(Stage(StageAt("/staging/a", block, "vol-d")));
  source_.FailNotesFromNow(ResourceExhausted("the disk of the records is full"));
  EXPECT_THAT(Publish(spec), FailsWith(StatusCode::kResourceExhausted, "is full"));
  EXPECT_FALSE(IsMounted("/pods/t"));
  EXPECT_EQ(store_->Get("/pods/t").value(), std::nullopt);
  source_.FailNotesFromNow(absl::OkStatus());
  ASSERT_OK(Publish(spec));
  EXPECT_TRUE(source_.Find("vol-d")->raw);
}

TEST_F(NodeVolumesTest, AReaderOfADiskLeavesNoNote) {
  mounter_.With([](FakeKernel& kernel) { kernel.AddFile("/dev/fake1", kMebi); });
  source_.Put({.id = "vol-d", .kind = BackendKind::kDevice, .path = "/dev/fake1", .bytes = kMebi, .fs_type = "ext4"});
  ASSERT_OK(Stage(StageAt("/staging/a", BlockCapability(), "vol-d")));
  ASSERT_OK(Publish(ReadOnly(PublishAt("/pods/t", BlockCapability(), "/staging/a", "vol-d"))));
  EXPECT_FALSE(source_.Find("vol-d")->raw);
}

// With the last user of a disk or logical volume, the kernel drops what it could not write, and another program could
// deactivate the volume.
class NodeDiskTest : public NodeVolumesTest {
 protected:
  // FakeKernel has no disks: a foreign loop device stands for one.
  NodeDiskTest() {
    const LoopInfo disk = mounter_.With([](FakeKernel& kernel) {
      kernel.AddFile("/disk", kMebi);
      return *kernel.AttachLoop({.backing_file = "/disk", .label = "no volume"});
    });
    disk_ = disk.device;
    source_.Put({.id = "vol-d",
                 .kind = BackendKind::kDevice,
                 .path = disk_,
                 .device = disk.device_number,
                 .bytes = kMebi,
                 .fs_type = "ext4"});
    EXPECT_OK(Stage(StageAt("/staging/a", kBlock, "vol-d")));
  }
  PublishSpec Target() const { return PublishAt("/pods/t", kBlock, "/staging/a", "vol-d"); }
  std::vector<std::string> Holds() {
    std::vector<std::string> calls = mounter_.Calls();
    std::erase_if(calls, [](const std::string& call) {
      return !call.starts_with("HoldDevice") && !call.starts_with("ReleaseDevice") && !call.starts_with("Flush");
    });
    return calls;
  }

  std::string disk_;
  const Capability kBlock = BlockCapability(AccessMode::kSingleNodeMultiWriter);
};

TEST_F(NodeDiskTest, ADiskIsHeldFromTheFirstWritableTargetToTheLastUse) {
  EXPECT_THAT(Holds(), IsEmpty());
  ASSERT_OK(Publish(Target()));
  EXPECT_THAT(Holds(), ElementsAre("HoldDevice " + disk_));
  ASSERT_OK(Unpublish("/pods/t", "vol-d"));
  EXPECT_THAT(Holds(), ElementsAre("HoldDevice " + disk_)) << "its data is flushed with the unstage";
  ASSERT_OK(Unstage("/staging/a", "vol-d"));
  EXPECT_THAT(Holds(),
              ElementsAre("HoldDevice " + disk_, "Flush " + disk_, "Flush " + disk_, "ReleaseDevice " + disk_));
}

TEST_F(NodeDiskTest, DataThatCannotBeWrittenKeepsTheHold) {
  ASSERT_OK(Publish(Target()));
  ASSERT_OK(Unpublish("/pods/t", "vol-d"));
  mounter_.Fail("Flush", ResourceExhausted("injected"));
  EXPECT_THAT(Unstage("/staging/a", "vol-d"), FailsWith(StatusCode::kResourceExhausted, "injected"));
  EXPECT_THAT(mounter_.Calls("ReleaseDevice"), IsEmpty());
}

TEST_F(NodeDiskTest, ATargetThatOutlivesTheStagingKeepsTheHold) {
  ASSERT_OK(Publish(Target()));
  ASSERT_OK(Unstage("/staging/a", "vol-d"));
  EXPECT_THAT(mounter_.Calls("ReleaseDevice"), IsEmpty());
  mounter_.ClearLog();
  mounter_.Fail("Flush", ResourceExhausted("injected"));
  EXPECT_THAT(Unpublish("/pods/t", "vol-d"), FailsWith(StatusCode::kResourceExhausted, "injected"));
  EXPECT_THAT(Holds(), ElementsAre("Flush " + disk_)) << "a task has written since the unstage";
  ASSERT_OK(Unpublish("/pods/t", "vol-d"));
  EXPECT_THAT(mounter_.Calls("ReleaseDevice"), SizeIs(1));
}

TEST_F(NodeDiskTest, ATargetThatIsGoneAtTheNextStartNeedsNoHolder) {
  ASSERT_OK(Publish(Target()));
  ASSERT_OK(Unstage("/staging/a", "vol-d"));
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/t"); });
  Restart();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(mounter_.Calls("ReleaseDevice"), SizeIs(1));
}

// The guard of the mount helper refuses what is no device of a volume.
TEST_F(NodeDiskTest, ARemovedDiskIsNeitherFlushedNorReleased) {
  ASSERT_OK(Publish(Target()));
  ASSERT_OK(Unpublish("/pods/t", "vol-d"));
  NodeVolume volume = source_.Find("vol-d").value();
  volume.device = 7;  // and its node is another one's
  source_.Put(volume);
  mounter_.ClearLog();
  ASSERT_OK(Unstage("/staging/a", "vol-d"));
  EXPECT_THAT(Holds(), ElementsAre("Flush " + disk_));
}

// Another program deactivated the logical volume, and the path is another one's by now.
TEST_F(NodeDiskTest, ADeviceThatMovedMeanwhileIsNotBound) {
  NodeVolume moved = source_.Find("vol-d").value();
  moved.device = 7;
  source_.MoveWithNote(moved);
  EXPECT_THAT(Publish(Target()), FailsWith(StatusCode::kAborted, "the device of volume vol-d was"));
  EXPECT_FALSE(IsMounted("/pods/t"));
}

TEST_F(NodeDiskTest, ADiskThatIsNotHeldIsNotPublished) {
  mounter_.Fail("HoldDevice", Unavailable("injected"));
  EXPECT_THAT(Publish(Target()), FailsWith(StatusCode::kUnavailable, "injected"));
  EXPECT_FALSE(IsMounted("/pods/t"));
}

// A reader's device holds the disk.
TEST_F(NodeDiskTest, AReaderNeedsNoHold) {
  ASSERT_OK(Publish(ReadOnly(Target())));
  EXPECT_THAT(mounter_.Calls("HoldDevice"), IsEmpty());
}

TEST_F(NodeDiskTest, TheNextStartHoldsAgain) {
  ASSERT_OK(Publish(Target()));
  mounter_.ClearLog();
  Restart();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(Holds(), Contains("HoldDevice " + disk_));
}

}  // namespace
}  // namespace mooring::testing
