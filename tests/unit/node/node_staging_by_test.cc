// StagingBy::kPlugin, for an orchestrator that neither creates staging directories nor unstages (Docker Swarm).
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

class NodeStagingByTest : public NodeVolumesTest {
 protected:
  NodeStagingByTest() {
    staging_by_ = StagingBy::kPlugin;
    Restart();
  }
  static constexpr char kStaging[] = "/staging/made";  // nobody has made it
  static Capability Many() { return MountCapability(AccessMode::kMultiNodeMultiWriter); }
};

TEST_F(NodeStagingByTest, StageCreatesMissingStagingDirectory) {
  ASSERT_OK(Stage(StageAt(kStaging)));
  EXPECT_TRUE(IsMounted(kStaging));
  EXPECT_OK(Stage(StageAt(kStaging))) << "it comes before each publish";
  EXPECT_EQ(MountsAt(kStaging).size(), 1U);
}

TEST_F(NodeStagingByTest, StageDoesNotCreateParentDirectory) {
  EXPECT_THAT(Stage(StageAt("/nowhere/made")), FailsWith(StatusCode::kFailedPrecondition, "/nowhere"));
  ExpectNothingLeft();
}

TEST_F(NodeStagingByTest, LastUnpublishUnstages) {
  ASSERT_OK(Stage(StageAt(kStaging, Many())));
  ASSERT_OK(Publish(PublishAt("/pods/t", Many(), kStaging)));
  ASSERT_OK(Publish(PublishAt("/pods/u", Many(), kStaging)));
  ASSERT_OK(Unpublish("/pods/t"));
  EXPECT_TRUE(IsMounted(kStaging)) << "there is another target";
  ASSERT_OK(Unpublish("/pods/u"));
  EXPECT_FALSE(Exists(kStaging));
  ExpectNothingLeft();
}

TEST_F(NodeStagingByTest, NextUnpublishRetriesFailedUnstage) {
  ASSERT_OK(Stage(StageAt(kStaging)));
  ASSERT_OK(Publish(PublishAt("/pods/t", MountCapability(), kStaging)));
  mounter_.With([](FakeKernel& kernel) { kernel.SetBusy(kStaging, true); });
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kFailedPrecondition, kStaging));
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kFailedPrecondition, "the target '/pods/t' is gone"));
  EXPECT_FALSE(Exists("/pods/t"));
  mounter_.With([](FakeKernel& kernel) { kernel.SetBusy(kStaging, false); });
  EXPECT_OK(Unpublish("/pods/t"));
  ExpectNothingLeft();
}

TEST_F(NodeStagingByTest, UnstageByOrchestratorIsOk) {
  ASSERT_OK(Stage(StageAt(kStaging)));
  ASSERT_OK(Unstage(kStaging));
  EXPECT_FALSE(Exists(kStaging));
  EXPECT_OK(Unstage(kStaging));
  ExpectNothingLeft();
}

TEST_F(NodeStagingByTest, BlockVolumeNeedsNoDirectoryAndLastUnpublishDetaches) {
  ASSERT_OK(Stage(StageAt(kStaging, BlockCapability())));
  EXPECT_FALSE(Exists(kStaging));
  ASSERT_OK(Publish(PublishAt("/pods/t", BlockCapability(), kStaging)));
  ASSERT_OK(Unpublish("/pods/t"));
  ExpectNothingLeft();
}

TEST_F(NodeStagingByTest, FilesInStagingDirectoryOfBlockVolumeKeepNoDevice) {
  mounter_.With([](FakeKernel& kernel) {
    kernel.AddDirectory(kStaging);
    kernel.AddFile(std::string(kStaging) + "/somebodys", 1);
  });
  ASSERT_OK(Stage(StageAt(kStaging, BlockCapability())));
  ASSERT_OK(Publish(PublishAt("/pods/t", BlockCapability(), kStaging)));
  EXPECT_OK(Unpublish("/pods/t"));
  EXPECT_TRUE(Exists(std::string(kStaging) + "/somebodys"));
  ExpectNothingLeft();
}

TEST_F(NodeStagingByTest, FailedUnstageOfOnePathDoesNotKeepTheOther) {
  for (const char* busy : {"/staging/a", "/staging/b"}) {
    ASSERT_OK(Stage(StageAt("/staging/a", Many())));
    ASSERT_OK(Stage(StageAt("/staging/b", Many())));
    ASSERT_OK(Publish(PublishAt("/pods/t", Many())));
    mounter_.With([busy](FakeKernel& kernel) { kernel.SetBusy(busy, true); });
    EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kFailedPrecondition, busy));
    EXPECT_THAT(RecordedPaths(), ElementsAre(busy));
    mounter_.With([busy](FakeKernel& kernel) { kernel.SetBusy(busy, false); });
    EXPECT_OK(Unpublish("/pods/t"));
    ExpectNothingLeft();
  }
}

// The plugin and the publishing agent both ended in between.
TEST_F(NodeStagingByTest, ReconcileUnstagesVolumesWithoutTarget) {
  for (const Capability& capability : {MountCapability(), BlockCapability()}) {
    ASSERT_OK(Stage(StageAt(kStaging, capability)));
    Restart();
    EXPECT_OK(volumes_->Reconcile());
    EXPECT_FALSE(Exists(kStaging));
    ExpectNothingLeft();
  }
}

TEST_F(NodeStagingByTest, ReconcileKeepsPublishedVolumes) {
  for (const Capability& capability : {MountCapability(), BlockCapability()}) {
    ASSERT_OK(Stage(StageAt(kStaging, capability)));
    ASSERT_OK(Publish(PublishAt("/pods/t", capability, kStaging)));
    const std::string world = World();
    Restart();
    EXPECT_OK(volumes_->Reconcile());
    EXPECT_EQ(World(), world);
    ASSERT_OK(Unpublish("/pods/t"));
    ExpectNothingLeft();
  }
}

TEST_F(NodeStagingByTest, ReconcileKeepsStagingsOfOrchestrator) {
  staging_by_ = StagingBy::kOrchestrator;
  Restart();
  ASSERT_OK(Stage(StageAt("/staging/a")));
  Restart();
  EXPECT_OK(volumes_->Reconcile());
  EXPECT_TRUE(IsMounted("/staging/a"));
}

// The staging cannot be told from a target then, and ending the mount of a task is worse than keeping both.
TEST_F(NodeStagingByTest, WithoutRecordsOnlyUnstageEndsStaging) {
  for (const bool published : {false, true}) {
    ASSERT_OK(Stage(StageAt(kStaging)));
    if (published) {
      ASSERT_OK(Publish(PublishAt("/pods/t", MountCapability(), kStaging)));
    }
    const std::size_t mounts = MountCount();
    LoseRecords();
    Restart();
    EXPECT_OK(volumes_->Reconcile());
    EXPECT_EQ(MountCount(), mounts);
    if (published) {
      EXPECT_OK(Unpublish("/pods/t"));
    }
    EXPECT_TRUE(IsMounted(kStaging));
    EXPECT_OK(Unstage(kStaging));
    ExpectNothingLeft();
  }
}

TEST_F(NodeStagingByTest, FailedStageLeavesNoDirectory) {
  AddVolume("vol-x", "xfs", 400 * kMebi);
  mounter_.Fail("Mount", absl::InternalError("mount: broken"));
  EXPECT_THAT(Stage(StageAt(kStaging, MountCapability(), "vol-x")), FailsWith(StatusCode::kInternal, "broken"));
  EXPECT_FALSE(Exists(kStaging));
  EXPECT_THAT(RecordedPaths(), IsEmpty());
}

TEST_F(NodeStagingByTest, UnpublishKeepsStagingOfOrchestrator) {
  staging_by_ = StagingBy::kOrchestrator;
  Restart();
  EXPECT_THAT(Stage(StageAt(kStaging)), FailsWith(StatusCode::kFailedPrecondition, "is not there"));
  ASSERT_OK(Stage(StageAt("/staging/a")));
  ASSERT_OK(Publish(PublishAt("/pods/t")));
  ASSERT_OK(Unpublish("/pods/t"));
  EXPECT_THAT(RecordedPaths(), ElementsAre("/staging/a"));
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_TRUE(Exists("/staging/a")) << "the orchestrator made it";
}

}  // namespace
}  // namespace mooring::testing
