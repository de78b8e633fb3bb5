// The record of a use in a pool that many hosts have: VolumeSource::BeginUse and EndUse.
#include "plugin/model/volume_id.h"
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

class NodeUsesTest : public NodeVolumesTest {
 protected:
  NodeUsesTest() { AddVolume(id_); }

  const std::string id_ = NewVolumeId("0a1b2c3d");
  const absl::Status away_ = Unavailable("the server is away");
};

TEST_F(NodeUsesTest, AUseEndsWithTheLastMount) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), id_)));
  ASSERT_OK(Publish(PublishAt("/pods/a", MountCapability(), "/staging/a", id_)));
  ASSERT_OK(Unpublish("/pods/a", id_));
  EXPECT_THAT(source_.ended(), IsEmpty());
  ASSERT_OK(Unstage("/staging/a", id_));
  EXPECT_THAT(source_.ended(), ElementsAre(id_));
  EXPECT_THAT(source_.left(), IsEmpty());
}

// The volume is unmounted, whatever the records say. A busy or full pool is not asked again by any call.
TEST_F(NodeUsesTest, AnEndThatFailedIsLeftForLaterAndTriedByTheSameCall) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), id_)));
  source_.FailUses(absl::OkStatus(), away_);
  EXPECT_OK(Unstage("/staging/a", id_));
  EXPECT_THAT(source_.left(), ElementsAre(id_));
  EXPECT_FALSE(IsMounted("/staging/a"));
  source_.FailUses(absl::OkStatus(), absl::OkStatus());
  EXPECT_OK(Unstage("/staging/a", id_));
  EXPECT_THAT(source_.ended(), ElementsAre(id_));
}

TEST_F(NodeUsesTest, ARecordThatMayHaveBeenMadeIsLeftForLater) {
  source_.FailUses(away_, absl::OkStatus());
  EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(), id_)), FailsWith(StatusCode::kUnavailable, "away"));
  EXPECT_THAT(source_.left(), ElementsAre(id_));
  source_.FailUses(FailedPrecondition("in use on another node"), absl::OkStatus());
  EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(), id_)),
              FailsWith(StatusCode::kFailedPrecondition, "in use on another node"));
  EXPECT_THAT(source_.left(), SizeIs(1)) << "none was made";
}

TEST_F(NodeUsesTest, AMountThatFailsEndsItsUse) {
  mounter_.Fail("Mount", FailedPrecondition("refused"));
  EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(), id_)), FailsWith(StatusCode::kFailedPrecondition, ""));
  EXPECT_THAT(source_.ended(), ElementsAre(id_));
}

}  // namespace
}  // namespace mooring::testing
