// NodeUnpublishVolume unmounts by path, also for unknown volumes, and never another program's mount.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

class NodeUnpublishTest : public NodeVolumesTest {
 protected:
  NodeUnpublishTest() {
    mounter_.With([](FakeKernel& kernel) { kernel.AddForeignMount("/pods", "ext4", 1); });  // as orchestrators have it
    EXPECT_OK(Stage(StageAt("/staging/a")));
    EXPECT_OK(Publish(PublishAt("/pods/t")));
  }
  void AddNested(const std::string& target, std::uint64_t peer_group, std::uint64_t master = 0) {
    mounter_.With([&](FakeKernel& kernel) { kernel.AddForeignMount(target, "tmpfs", peer_group, master); });
  }
};

TEST_F(NodeUnpublishTest, PathThatWasNeverUsedIsOk) {
  for (const char* path : {"/pods/never", "/missing/parent"}) {
    for (const char* id : {kVolume, kUnknown}) {
      EXPECT_OK(Unpublish(path, id));
      EXPECT_OK(Unstage(path, id));
    }
  }
}

TEST_F(NodeUnpublishTest, EmptyTargetIsRemoved) {
  mounter_.With([](FakeKernel& kernel) { kernel.AddDirectory("/pods/left"); });
  EXPECT_OK(Unpublish("/pods/left"));
  EXPECT_FALSE(Exists("/pods/left"));
}

TEST_F(NodeUnpublishTest, UnknownVolumeIsUnpublishedByPath) {
  source_.Forget(kVolume);
  LoseRecords();
  ASSERT_OK(Unpublish("/pods/t", kUnknown));
  EXPECT_FALSE(IsMounted("/pods/t"));
  ASSERT_OK(Unstage("/staging/a", kUnknown));
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods"); });
  ExpectNothingLeft();
}

TEST_F(NodeUnpublishTest, FailedCatalogLookupUnmountsNothing) {
  source_.FailFromNow(Internal("catalog broken"));
  EXPECT_THAT(Unpublish("/pods/t", "vol-other"), FailsWith(StatusCode::kInternal, "catalog broken"));
  EXPECT_TRUE(IsMounted("/pods/t"));
  EXPECT_OK(Unpublish("/pods/t")) << "its own id is reason enough";
}

TEST_F(NodeUnpublishTest, ForeignMountStays) {
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignMount("/pods/foreign", "nfs4"); });
  const std::string before = World();
  EXPECT_THAT(Unpublish("/pods/foreign"), FailsWith(StatusCode::kFailedPrecondition, "nfs4"));
  EXPECT_THAT(Unpublish("/pods/foreign", kUnknown), FailsWith(StatusCode::kFailedPrecondition, "nfs4"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeUnpublishTest, MountsOfAnotherKnownVolumeStay) {
  AddVolume("vol-b");
  const std::string before = World();
  EXPECT_THAT(Unpublish("/pods/t", "vol-b"),
              FailsWith(StatusCode::kFailedPrecondition, "in use for volume vol-a, not 'vol-b'"));
  EXPECT_THAT(Unstage("/staging/a", "vol-b"), FailsWith(StatusCode::kFailedPrecondition, "volume vol-a"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeUnpublishTest, PropagatedMountsBelowAreUnmounted) {
  AddNested("/pods/t/x", 9);
  AddNested("/pods/t/x/y", 0, 9);
  AddNested("/pods/tother", 9);
  ASSERT_OK(Unpublish("/pods/t"));
  EXPECT_FALSE(IsMounted("/pods/t/x"));
  EXPECT_TRUE(IsMounted("/pods/tother")) << "a neighbour whose name begins alike";
  EXPECT_FALSE(Exists("/pods/t"));
}

TEST_F(NodeUnpublishTest, MountBelowPrivateTargetStays) {
  PublishSpec spec = PublishAt("/pods/own", MountCapability(AccessMode::kSingleNodeMultiWriter));
  ASSERT_OK(Unpublish("/pods/t"));
  spec.propagation = Propagation::kPrivate;
  ASSERT_OK(Publish(spec));
  AddNested("/pods/own/shared", 9);  // somebody's bind of a shared directory
  const std::string before = World();
  EXPECT_THAT(Unpublish("/pods/own"), FailsWith(StatusCode::kFailedPrecondition, "'/pods/own/shared'"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeUnpublishTest, OnlyMountsWithMasterBelowSlaveAreUnmounted) {
  PublishSpec spec = PublishAt("/pods/own", MountCapability(AccessMode::kSingleNodeMultiWriter));
  ASSERT_OK(Unpublish("/pods/t"));
  spec.propagation = Propagation::kSlave;
  ASSERT_OK(Publish(spec));
  AddNested("/pods/own/shared", 9);
  AddNested("/pods/own/came", 0, 8);
  EXPECT_THAT(Unpublish("/pods/own"), FailsWith(StatusCode::kFailedPrecondition, "'/pods/own/shared'"));
  EXPECT_TRUE(IsMounted("/pods/own/came")) << "all or nothing";
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/own/shared"); });
  EXPECT_OK(Unpublish("/pods/own"));
  EXPECT_FALSE(IsMounted("/pods/own/came"));
}

TEST_F(NodeUnpublishTest, MountOnPrivateMountOfStackBelowStays) {
  AddNested("/pods/t/a", 0);
  AddNested("/pods/t/a", 9);  // on that private one: a bind of a shared directory, nothing arrives there
  const std::string before = World();
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kFailedPrecondition,
                                              "below it at '/pods/t/a'; tmpfs is mounted below it at '/pods/t/a'"));
  EXPECT_EQ(World(), before);
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/t/a"); });
  AddNested("/pods/t/a", 9);
  AddNested("/pods/t/a", 8);
  EXPECT_OK(Unpublish("/pods/t"));
}

TEST_F(NodeUnpublishTest, EachMountThatStaysIsNamed) {
  AddNested("/pods/t/a", 0);
  AddNested("/pods/t/b", 0);
  AddNested("/pods/t/c", 9);
  const std::string before = World();
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kFailedPrecondition,
                                              "tmpfs is mounted below it at '/pods/t/a'; tmpfs is mounted "
                                              "below it at '/pods/t/b'; unmount that first"));
  EXPECT_EQ(World(), before);
}

// The task would then write into the directory below.
TEST_F(NodeUnpublishTest, TargetOfAnotherVolumeBelowStaysAndIsNamed) {
  AddVolume("vol-b");
  ASSERT_OK(Stage(StageAt("/staging/b", MountCapability(), "vol-b")));
  ASSERT_OK(Publish(PublishAt("/pods/t/td", MountCapability(), "/staging/b", "vol-b")));
  AddNested("/pods/t/x", 9);
  const std::string before = World();
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kFailedPrecondition, "vol-b is in use below it"));
  EXPECT_EQ(World(), before);
  ASSERT_OK(Unpublish("/pods/t/td", "vol-b"));
  EXPECT_OK(Unpublish("/pods/t"));
}

TEST_F(NodeUnpublishTest, BusyMountBelowIsNamed) {
  AddNested("/pods/t/x", 9);
  mounter_.With([](FakeKernel& kernel) { kernel.SetBusy("/pods/t/x", true); });
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kFailedPrecondition, "/pods/t/x"));
  EXPECT_TRUE(IsMounted("/pods/t"));
}

TEST_F(NodeUnpublishTest, BusyTargetFailsAndIsUnpublishedLater) {
  mounter_.With([](FakeKernel& kernel) { kernel.SetBusy("/pods/t", true); });
  const std::string before = World();
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kFailedPrecondition, "fuser -vm /pods/t"));
  EXPECT_EQ(World(), before);
  mounter_.With([](FakeKernel& kernel) { kernel.SetBusy("/pods/t", false); });
  EXPECT_OK(Unpublish("/pods/t"));
}

TEST_F(NodeUnpublishTest, AllMountsOfStackAreUnmounted) {
  mounter_.With([](FakeKernel& kernel) {
    const FakeMount mine = kernel.MountsAt("/pods/t").at(0);
    kernel.AddMount(mine.info);
    kernel.AddMount(mine.info);
  });
  ASSERT_THAT(MountsAt("/pods/t"), SizeIs(3));
  ASSERT_OK(Unpublish("/pods/t"));
  EXPECT_FALSE(IsMounted("/pods/t"));
  EXPECT_FALSE(Exists("/pods/t"));
}

TEST_F(NodeUnpublishTest, PropagatedMountOnVolumeRootIsUnmounted) {
  AddNested("/pods/t", 9);
  ASSERT_THAT(MountsAt("/pods/t"), SizeIs(2));
  ASSERT_OK(Unpublish("/pods/t"));
  EXPECT_FALSE(IsMounted("/pods/t"));
  EXPECT_FALSE(Exists("/pods/t"));
}

TEST_F(NodeUnpublishTest, PrivateMountOnVolumeRootStays) {
  AddNested("/pods/t", 0);
  const std::string before = World();
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kFailedPrecondition, "no volume of this driver"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeUnpublishTest, MessageContainsCauseOfRefusal) {
  for (const int attempt : {1, 2}) mounter_.Fail("Unmount", FailedPrecondition("the helper refused it"), attempt);
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kFailedPrecondition, "the helper refused it"));
}

TEST_F(NodeUnpublishTest, ForeignMountUnderVolumeStays) {
  mounter_.With([](FakeKernel& kernel) {
    const FakeMount mine = kernel.MountsAt("/pods/t").at(0);
    kernel.AddDirectory("/pods/u");
    kernel.AddForeignMount("/pods/u", "nfs4");
    ListedMount on_top = mine.info;
    on_top.target = "/pods/u";
    kernel.AddMount(on_top);
  });
  EXPECT_THAT(Unpublish("/pods/u"), FailsWith(StatusCode::kFailedPrecondition, "nfs4"));
  ASSERT_THAT(MountsAt("/pods/u"), SizeIs(1));
  EXPECT_EQ(MountsAt("/pods/u")[0].info.fs_type, "nfs4");
}

TEST_F(NodeUnpublishTest, TargetWithoutMountIsRemovedWithRecord) {
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/t"); });
  ASSERT_OK(Unpublish("/pods/t"));
  EXPECT_FALSE(Exists("/pods/t"));
  EXPECT_THAT(RecordedPaths(), ElementsAre("/staging/a"));
}

TEST_F(NodeUnpublishTest, FailedUnmountKeepsRecord) {
  const std::string before = World();
  mounter_.Fail("Unmount", Internal("injected"));
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kInternal, "injected"));
  EXPECT_EQ(World(), before);
  EXPECT_OK(Unpublish("/pods/t"));
}

TEST_F(NodeUnpublishTest, RetrySucceedsAfterEachInjectedError) {
  for (int nth = 1;; ++nth) {
    ASSERT_OK(Publish(PublishAt("/pods/t")));
    mounter_.Fail(FakeMounter::kAnyCall, Internal("injected"), nth);
    const absl::Status status = Unpublish("/pods/t");
    if (mounter_.HasFaults()) {
      EXPECT_OK(status);
      EXPECT_GT(nth, 2);
      break;
    }
    EXPECT_FALSE(status.ok()) << nth;
    ASSERT_OK(Unpublish("/pods/t")) << nth;
    EXPECT_FALSE(IsMounted("/pods/t"));
    EXPECT_FALSE(Exists("/pods/t"));
  }
  mounter_.ClearFaults();
}

}  // namespace
}  // namespace mooring::testing
