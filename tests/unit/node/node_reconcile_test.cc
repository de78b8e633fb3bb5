// The start after a killed process or a reboot.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

class NodeReconcileTest : public NodeVolumesTest {
 protected:
  void StageAndPublish(const Capability& capability) {
    ASSERT_OK(Stage(StageAt("/staging/a", capability)));
    ASSERT_OK(Publish(PublishAt("/pods/t", capability)));
  }
};

TEST_F(NodeReconcileTest, RecordsWithoutMountAreDeleted) {
  StageAndPublish(MountCapability());
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/t"); });
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), ElementsAre("/staging/a"));
}

// Looking up a path may hang; listing the mounts does not.
TEST_F(NodeReconcileTest, ListedMountsAreNotLookedUpByPath) {
  StageAndPublish(MountCapability());
  mounter_.ClearLog();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(mounter_.Calls("Find"), ::testing::IsEmpty());
}

TEST_F(NodeReconcileTest, RecordWithHangingPathStays) {
  StageAndPublish(MountCapability());
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/t"); });
  mounter_.Fail("Find", absl::DeadlineExceededError("hangs"));
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), ::testing::UnorderedElementsAre("/pods/t", "/staging/a"));
}

TEST_F(NodeReconcileTest, RecordsUnderForeignMountsAreDeleted) {
  StageAndPublish(MountCapability());
  mounter_.With([](FakeKernel& kernel) {
    kernel.DropMounts("/pods/t");
    kernel.AddForeignMount("/pods/t", "tmpfs");
  });
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), ElementsAre("/staging/a"));
}

TEST_F(NodeReconcileTest, RecordOfBlockVolumeWithoutDeviceIsDeleted) {
  StageAndPublish(BlockCapability());
  mounter_.With([](FakeKernel& kernel) { kernel.Reboot(); });
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), IsEmpty());
}

TEST_F(NodeReconcileTest, MountsWithoutRecordAreAdopted) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  ASSERT_OK(Publish(ReadOnly(PublishAt("/pods/t"))));
  LoseRecords();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), ElementsAre("/pods/t", "/staging/a"));
  const VolumeUse adopted = *store_->Get("/pods/t").value();
  EXPECT_TRUE(adopted.adopted());
  EXPECT_TRUE(adopted.done);
  EXPECT_TRUE(adopted.read_only);
  EXPECT_EQ(adopted.volume_id, kVolume);
  EXPECT_EQ(adopted.access_type, AccessType::kMount);
}

TEST_F(NodeReconcileTest, AdoptedBlockTargetKeepsDeviceUntilUnpublish) {
  StageAndPublish(BlockCapability());
  LoseRecords();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_EQ(store_->Get("/pods/t").value()->access_type, AccessType::kBlock);
  EXPECT_OK(Unstage("/staging/a"));
  EXPECT_THAT(Loops(), SizeIs(1));
  EXPECT_OK(Unpublish("/pods/t"));
  ExpectNothingLeft();
}

// kubelet binds a block target again for each pod, and unmounts that itself.
TEST_F(NodeReconcileTest, AdoptedBindThatIsGoneKeepsNoDevice) {
  StageAndPublish(BlockCapability());
  BindRequest again;
  again.source = Loops().at(0).device;
  again.target = "/pods/kubelet";
  again.target_kind = TargetKind::kFile;
  ASSERT_OK(mounter_.Bind(again));
  LoseRecords();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), ElementsAre("/pods/kubelet", "/pods/t"));
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/kubelet"); });
  EXPECT_OK(Unpublish("/pods/t"));
  ExpectNothingLeft();
}

TEST_F(NodeReconcileTest, ForeignMountsAndVolumesAreNotAdopted) {
  StageAndPublish(MountCapability());
  LoseRecords();
  source_.Forget(kVolume);
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignMount("/pods/foreign", "tmpfs"); });
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), IsEmpty());
  EXPECT_EQ(MountCount(), 3U);
}

// A volume without its image is still known, and does not delay the others.
TEST_F(NodeReconcileTest, VolumeWithFailedLookupIsAdopted) {
  StageAndPublish(MountCapability());
  LoseRecords();
  source_.FailFromNow(Internal("its image is gone"));
  EXPECT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), SizeIs(2));
  EXPECT_OK(Unpublish("/pods/t"));
  EXPECT_OK(Unstage("/staging/a"));
  ExpectNothingLeft();
}

// Another plugin of this host, with the same node id, may have a shared pool that this one does not have.
TEST_F(NodeReconcileTest, VolumesInPoolsOfAnotherPluginAreLeftAlone) {
  AddVolume("vol-b");
  StageAndPublish(MountCapability());
  ASSERT_OK(Stage(StageAt("/staging/b", BlockCapability(), "vol-b")));
  LoseRecords();
  source_.FailFromNow(FailedPrecondition("the shared pool is not one of this plugin's"));
  EXPECT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), IsEmpty());
  EXPECT_THAT(Loops(), SizeIs(2));
}

// The orchestrator's directory may be bound a second time, and then shows each mount twice.
TEST_F(NodeReconcileTest, CopyOfRecordedMountIsNotAdopted) {
  StageAndPublish(MountCapability());
  BindRequest copy;
  copy.source = "/staging/a";
  copy.target = "/pods/mirror";
  ASSERT_OK(mounter_.Bind(copy));
  Restart();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), ElementsAre("/pods/t", "/staging/a"));
  EXPECT_OK(Unpublish("/pods/t"));
  EXPECT_OK(Publish(PublishAt("/pods/t")));
}

TEST_F(NodeReconcileTest, VolumeLockedByAnotherProcessIsSkipped) {
  AddVolume("vol-b");
  ASSERT_OK(Stage(StageAt("/staging/b", MountCapability(), "vol-b")));
  ASSERT_OK(Stage(StageAt("/staging/a", BlockCapability())));
  VolumeUse intent = *store_->Get("/staging/a").value();
  intent.path = "/pods/t";
  intent.role = VolumeUse::Role::kTarget;
  intent.done = false;
  ASSERT_OK(store_->Put(intent));
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/staging/b"); });
  {
    const auto working = locks_.Acquire(kVolume, "volume", std::chrono::steady_clock::now());
    ASSERT_OK(working);
    ASSERT_OK(volumes_->Reconcile());
    EXPECT_THAT(RecordedPaths(), ElementsAre("/pods/t", "/staging/a"));
  }
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), ElementsAre("/staging/a"));
}

TEST_F(NodeReconcileTest, DeviceThatCannotBeDetachedFailsNothing) {
  StageAndPublish(BlockCapability());
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/t"); });
  LoseRecords();
  mounter_.Fail("DetachLoop", Internal("injected"));
  EXPECT_OK(volumes_->Reconcile());
  EXPECT_FALSE(mounter_.HasFaults());
}

TEST_F(NodeReconcileTest, UnusedBlockDevicesAreDetachedStackedDeviceFirst) {
  const Capability block = BlockCapability(AccessMode::kMultiNodeReaderOnly);
  StageAndPublish(block);
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/t"); });
  LoseRecords();
  mounter_.ClearLog();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(mounter_.Calls("DetachLoop"), ElementsAre("DetachLoop /dev/loop65538", "DetachLoop /dev/loop65536"));
  EXPECT_THAT(Loops(), IsEmpty());
}

TEST_F(NodeReconcileTest, DevicesInUseAndForeignDevicesStay) {
  AddVolume("vol-b");
  AddVolume("vol-c");
  StageAndPublish(MountCapability());
  ASSERT_OK(Stage(StageAt("/staging/b", BlockCapability(), "vol-b")));
  ASSERT_OK(Publish(PublishAt("/pods/b", BlockCapability(), "/staging/b", "vol-b")));
  mounter_.With([](FakeKernel& kernel) {
    kernel.AddForeignLoop("/images/other", "theirs");
    kernel.AddForeignLoop(Image("vol-c"), "mooring:vol-of-another-plugin");
  });
  LoseRecords();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(Loops(), SizeIs(4));
  EXPECT_THAT(mounter_.Calls("DetachLoop"), IsEmpty());
}

TEST_F(NodeReconcileTest, IntentWithoutMountIsDeletedAndWithMountStays) {
  StageAndPublish(MountCapability());
  LoseOutcomes();
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/t"); });
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(RecordedPaths(), ElementsAre("/staging/a"));
  EXPECT_OK(Stage(StageAt("/staging/a")));
  EXPECT_TRUE(store_->Get("/staging/a").value()->done);
}

TEST_F(NodeReconcileTest, FailedListingDeletesNothing) {
  StageAndPublish(MountCapability());
  const std::string before = World();
  for (const char* operation : {"List", "FindLoops"}) {
    mounter_.Fail(operation, Internal("injected"));
    EXPECT_THAT(volumes_->Reconcile(), FailsWith(StatusCode::kInternal, "injected")) << operation;
    EXPECT_EQ(World(), before);
  }
}

}  // namespace
}  // namespace mooring::testing
