// Each call of Stage and Publish to the Mounter fails in turn. Nothing is left, and the repeated call succeeds. A
// failed growth does not fail the stage.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

struct FaultCase {
  std::string name;
  AccessType access_type;
  std::string fs_type;
  bool formatted, read_only;
};

class NodeFaultsTest : public NodeVolumesTest, public ::testing::WithParamInterface<FaultCase> {
 protected:
  NodeFaultsTest() {
    capability_.access_type = GetParam().access_type;
    capability_.fs_type = GetParam().fs_type;
    capability_.mode = AccessMode::kMultiNodeMultiWriter;
  }

  // Each round has its own volume. A formatted volume needs every step.
  std::string FreshVolume(int nth) {
    const std::string id = fmt::format("vol-{}", nth);
    AddVolume(id, GetParam().fs_type.empty() ? "ext4" : GetParam().fs_type, 512 * kMebi);
    mounter_.With([&](FakeKernel& kernel) { kernel.AddDirectory("/staging/" + id); });
    if (GetParam().formatted) {
      SetFilesystem(id, {FilesystemInfo::Content::kFilesystem, GetParam().fs_type, 32 * kMebi, true, ""});
    }
    return id;
  }
  StageSpec ToStage(const std::string& id) { return StageAt("/staging/" + id, capability_, id); }
  PublishSpec ToPublish(const std::string& id) {
    PublishSpec spec = PublishAt("/pods/" + id, capability_, "/staging/" + id, id);
    spec.read_only = GetParam().read_only;
    return spec;
  }

  // False once `act` makes fewer than `nth` calls.
  bool FailsCleanly(int nth, const std::function<absl::Status()>& act) {
    const std::string before = World();
    mounter_.ClearLog();
    mounter_.Fail(FakeMounter::kAnyCall, Internal("injected"), nth);
    const absl::Status status = act();
    if (mounter_.HasFaults()) {
      EXPECT_OK(status);
      mounter_.ClearFaults();
      return false;
    }
    const std::string failed = mounter_.Calls().at(static_cast<std::size_t>(nth) - 1);
    if (failed.starts_with("Grow ")) {
      EXPECT_OK(status);
      EXPECT_OK(act());
      return true;
    }
    EXPECT_THAT(status, FailsWith(StatusCode::kInternal, "injected")) << failed;
    EXPECT_EQ(World(), before) << failed;
    EXPECT_OK(act()) << "again after " << failed;
    EXPECT_OK(act()) << "a third time after " << failed;
    return true;
  }

  Capability capability_;
};

TEST_P(NodeFaultsTest, FailedStageChangesNothing) {
  int nth = 1;
  for (;; ++nth) {
    const std::string id = FreshVolume(nth);
    if (!FailsCleanly(nth, [&] { return Stage(ToStage(id)); })) break;
    ASSERT_OK(Unstage("/staging/" + id, id));
    ExpectNothingLeft();
  }
  EXPECT_GE(nth, 3);
}

TEST_P(NodeFaultsTest, FailedPublishChangesNothing) {
  int nth = 1;
  for (;; ++nth) {
    const std::string id = FreshVolume(nth);
    ASSERT_OK(Stage(ToStage(id)));
    if (!FailsCleanly(nth, [&] { return Publish(ToPublish(id)); })) break;
    ASSERT_OK(Unpublish("/pods/" + id, id));
    ASSERT_OK(Unstage("/staging/" + id, id));
    ExpectNothingLeft();
  }
  EXPECT_GE(nth, 3);
}

TEST_P(NodeFaultsTest, FailedRepetitionsLoseNothing) {
  const std::string id = FreshVolume(0);
  ASSERT_OK(Stage(ToStage(id)));
  ASSERT_OK(Publish(ToPublish(id)));
  for (int nth = 1; FailsCleanly(nth, [&] { return Stage(ToStage(id)); }); ++nth) {
  }
  for (int nth = 1; FailsCleanly(nth, [&] { return Publish(ToPublish(id)); }); ++nth) {
  }
}

TEST_P(NodeFaultsTest, RetriedTeardownLeavesNothing) {
  for (int nth = 1;; ++nth) {
    const std::string id = FreshVolume(nth);
    ASSERT_OK(Stage(ToStage(id)));
    ASSERT_OK(Publish(ToPublish(id)));
    mounter_.Fail(FakeMounter::kAnyCall, Internal("injected"), nth);
    for (int i = 0; i < 2; ++i) Unpublish("/pods/" + id, id).IgnoreError();
    for (int i = 0; i < 2; ++i) Unstage("/staging/" + id, id).IgnoreError();
    if (mounter_.HasFaults()) break;
    ExpectNothingLeft();
  }
  mounter_.ClearFaults();
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeFaultsTest,
                         ::testing::Values(FaultCase{"FreshExt4", AccessType::kMount, "ext4", false, false},
                                           FaultCase{"FreshXfs", AccessType::kMount, "xfs", false, true},
                                           FaultCase{"SmallDirtyExt4", AccessType::kMount, "ext4", true, true},
                                           FaultCase{"SmallXfs", AccessType::kMount, "xfs", true, false},
                                           FaultCase{"Block", AccessType::kBlock, "", false, false},
                                           FaultCase{"ReadOnlyBlock", AccessType::kBlock, "", false, true}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace mooring::testing
