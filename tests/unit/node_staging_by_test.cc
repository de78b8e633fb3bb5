// For an orchestrator that neither makes staging directories nor unstages (Docker Swarm).
#include "tests/unit/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NodeStagingByTest : public NodeVolumesTest {
 protected:
  NodeStagingByTest() {
    staging_by_ = StagingBy::kPlugin;
    Restart();
  }
  static constexpr char kStaging[] = "/staging/made";  // nobody has made it
  static Capability Many() { return MountCapability(AccessMode::kMultiNodeMultiWriter); }
};

TEST_F(NodeStagingByTest, AStagingDirectoryThatIsMissingIsMade) {
  ASSERT_OK(Stage(StageAt(kStaging)));
  EXPECT_TRUE(IsMounted(kStaging));
  EXPECT_OK(Stage(StageAt(kStaging))) << "it comes before each publish";
  EXPECT_EQ(MountsAt(kStaging).size(), 1U);
}

TEST_F(NodeStagingByTest, ItsParentIsNot) {
  EXPECT_THAT(Stage(StageAt("/nowhere/made")), FailsWith(StatusCode::kFailedPrecondition, "/nowhere"));
  ExpectNothingLeft();
}

TEST_F(NodeStagingByTest, WhatIsStagedGoesWithTheLastTarget) {
  ASSERT_OK(Stage(StageAt(kStaging, Many())));
  ASSERT_OK(Publish(PublishAt("/pods/t", Many(), kStaging)));
  ASSERT_OK(Publish(PublishAt("/pods/u", Many(), kStaging)));
  ASSERT_OK(Unpublish("/pods/t"));
  EXPECT_TRUE(IsMounted(kStaging)) << "there is another target";
  ASSERT_OK(Unpublish("/pods/u"));
  EXPECT_FALSE(Exists(kStaging));
  ExpectNothingLeft();
}

TEST_F(NodeStagingByTest, AnUnstageThatFailedIsMadeUpForByTheNextUnpublish) {
  ASSERT_OK(Stage(StageAt(kStaging)));
  ASSERT_OK(Publish(PublishAt("/pods/t", MountCapability(), kStaging)));
  mounter_.With([](FakeKernel& kernel) { kernel.SetBusy(kStaging, true); });
  EXPECT_THAT(Unpublish("/pods/t"), FailsWith(StatusCode::kFailedPrecondition, kStaging));
  EXPECT_FALSE(Exists("/pods/t"));
  mounter_.With([](FakeKernel& kernel) { kernel.SetBusy(kStaging, false); });
  EXPECT_OK(Unpublish("/pods/t"));
  ExpectNothingLeft();
}

TEST_F(NodeStagingByTest, AnUnstageThatComesNeverthelessIsOk) {
  ASSERT_OK(Stage(StageAt(kStaging)));
  ASSERT_OK(Unstage(kStaging));
  EXPECT_FALSE(Exists(kStaging));
  EXPECT_OK(Unstage(kStaging));
  ExpectNothingLeft();
}

TEST_F(NodeStagingByTest, ABlockVolumeNeedsNoDirectoryAndItsDeviceGoesWithTheLastTarget) {
  ASSERT_OK(Stage(StageAt(kStaging, BlockCapability())));
  EXPECT_FALSE(Exists(kStaging));
  ASSERT_OK(Publish(PublishAt("/pods/t", BlockCapability(), kStaging)));
  ASSERT_OK(Unpublish("/pods/t"));
  ExpectNothingLeft();
}

TEST_F(NodeStagingByTest, AStageThatFailsLeavesNoDirectory) {
  AddVolume("vol-x", "xfs", 400 * kMebi);
  mounter_.Fail("Grow", absl::InternalError("grow: broken"));
  EXPECT_THAT(Stage(StageAt(kStaging, MountCapability(), "vol-x")), FailsWith(StatusCode::kInternal, "broken"));
  EXPECT_FALSE(Exists(kStaging));
  EXPECT_THAT(RecordedPaths(), IsEmpty());
}

TEST_F(NodeStagingByTest, AnOrchestratorsStagingStays) {
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
