// NodePublishVolume: read-only, flags, existing mounts at the target, and missing records. The table of the second
// publish is in tests/rpc/calls/publish_table_test.cc.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

class NodePublishTest : public NodeVolumesTest {
 protected:
  void StageIt(Capability capability = MountCapability()) { ASSERT_OK(Stage(StageAt("/staging/a", capability))); }
};

TEST_F(NodePublishTest, MultiWriterTargetBesideSingleWriterTargetIsRefused) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  EXPECT_THAT(Publish(PublishAt("/pods/2", MountCapability(AccessMode::kSingleNodeMultiWriter))),
              FailsWith(StatusCode::kFailedPrecondition, "SINGLE_NODE_WRITER allows one target"));
}

// The first call of a publish looks at less than the usual ones do.
TEST_F(NodePublishTest, ARefusedFirstCallIsMadeUpFor) {
  const Capability many = MountCapability(AccessMode::kMultiNodeMultiWriter);
  StageIt(many);
  mounter_.Fail("Bind", FailedPrecondition("/pods/1 is a mount already"));
  EXPECT_OK(Publish(PublishAt("/pods/1", many)));
  mounter_.Fail("Bind", Internal("the source cannot be read"));
  EXPECT_THAT(Publish(PublishAt("/pods/2", many)), FailsWith(StatusCode::kInternal, "the source cannot be read"));
  EXPECT_THAT(RecordedPaths(), ElementsAre("/pods/1", "/staging/a"));
}

TEST_F(NodePublishTest, TargetWithoutMountDoesNotBlockOtherTargets) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/1"); });
  EXPECT_OK(Publish(PublishAt("/pods/2")));
  EXPECT_THAT(RecordedPaths(), ElementsAre("/pods/2", "/staging/a"));
}

TEST_F(NodePublishTest, TargetWithAnotherVolumeDoesNotBlockOtherTargets) {
  AddVolume("vol-b");
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  ASSERT_OK(Stage(StageAt("/staging/b", MountCapability(), "vol-b")));
  mounter_.With([](FakeKernel& kernel) {
    kernel.DropMounts("/pods/1");
    BindRequest request;
    request.source = "/staging/b";
    request.target = "/pods/1";
    EXPECT_OK(kernel.Bind(request));
  });
  EXPECT_OK(Publish(PublishAt("/pods/2")));
}

TEST_F(NodePublishTest, PublishMountsAgainWhereMountIsGone) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/pods/1"); });
  EXPECT_OK(Publish(ReadOnly(PublishAt("/pods/1"))));
  EXPECT_TRUE(FlagsAt("/pods/1").read_only);
}

TEST_F(NodePublishTest, MountDecidesWithoutRecords) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  LoseRecords();
  Restart();
  EXPECT_THAT(Publish(ReadOnly(PublishAt("/pods/1"))), FailsWith(StatusCode::kAlreadyExists, "/pods/1"));
  EXPECT_OK(Publish(PublishAt("/pods/1")));
  EXPECT_THAT(RecordedPaths(), ElementsAre("/pods/1"));
  EXPECT_THAT(Publish(PublishAt("/pods/2")), FailsWith(StatusCode::kFailedPrecondition, "/pods/1"));
}

TEST_F(NodePublishTest, EachReadOnlyRequestMakesTargetReadOnly) {
  const AccessMode many = AccessMode::kMultiNodeMultiWriter;
  StageIt(MountCapability(many));
  ASSERT_OK(Publish(ReadOnly(PublishAt("/pods/field", MountCapability(many)))));
  ASSERT_OK(Publish(PublishAt("/pods/flag", WithFlags(MountCapability(many), {"ro"}))));
  ASSERT_OK(Publish(PublishAt("/pods/mode", MountCapability(AccessMode::kMultiNodeReaderOnly))));
  ASSERT_OK(Publish(PublishAt("/pods/writable", MountCapability(many))));
  for (const char* target : {"/pods/field", "/pods/flag", "/pods/mode"}) {
    EXPECT_TRUE(FlagsAt(target).read_only) << target;
  }
  EXPECT_FALSE(FlagsAt("/pods/writable").read_only);
}

TEST_F(NodePublishTest, TargetOfReadOnlyStagingIsReadOnly) {
  ASSERT_OK(Stage(ReadOnly(StageAt("/staging/a"))));
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  EXPECT_TRUE(FlagsAt("/pods/1").read_only);
  EXPECT_OK(Publish(PublishAt("/pods/1")));
}

TEST_F(NodePublishTest, PublishAddsFlagsToFlagsOfStaging) {
  StageIt(WithFlags(MountCapability(), {"nosuid", "noatime", "nodiratime"}));
  ASSERT_OK(Publish(PublishAt("/pods/1", WithFlags(MountCapability(), {"nodev", "noexec", "suid"}))));
  EXPECT_EQ(ToString(FlagsAt("/pods/1")), "rw,nosuid,nodev,noexec,nodiratime,noatime");
}

TEST_F(NodePublishTest, OnlyTargetsHaveMappedIds) {
  NodeVolume volume = source_.Find(kVolume).value();
  volume.tuning.idmap = "b:0:100000:65536";
  source_.Put(volume);
  const Capability many = MountCapability(AccessMode::kSingleNodeMultiWriter);
  StageIt(many);
  ASSERT_OK(Publish(PublishAt("/pods/1", many)));
  LoseRecords();  // the other way to publish
  ASSERT_OK(Publish(PublishAt("/pods/2", many)));
  EXPECT_EQ(MountsAt("/staging/a").at(0).idmap, "");
  for (const char* target : {"/pods/1", "/pods/2"}) EXPECT_EQ(MountsAt(target).at(0).idmap, volume.tuning.idmap);
  for (const char* path : {"/pods/1", "/pods/2"}) ASSERT_OK(Unpublish(path));
  ASSERT_OK(Unstage("/staging/a"));
  ASSERT_OK(volumes_->PublishAlone(PublishAt("/pods/3", many, ""), Call::WithLongestWait()));
  EXPECT_EQ(MountsAt("/pods/3").at(0).idmap, volume.tuning.idmap);
}

// Somebody may have mounted the volume at the target, or a path may be named for two things.
TEST_F(NodePublishTest, AMountWithoutTheMapIsNoTargetAndOneWithItNoStagingPath) {
  NodeVolume volume = source_.Find(kVolume).value();
  volume.tuning.idmap = "b:0:100000:65536";
  source_.Put(volume);
  const Capability many = MountCapability(AccessMode::kMultiNodeMultiWriter);
  StageIt(many);
  ASSERT_OK(Publish(PublishAt("/pods/1", many)));
  ASSERT_OK(Publish(PublishAt("/pods/1", many)));
  EXPECT_THAT(Stage(StageAt("/pods/1", many)), FailsWith(StatusCode::kFailedPrecondition, "is published at '/pods/1'"));
  ASSERT_OK(Stage(StageAt("/staging/b", many)));
  EXPECT_THAT(Publish(PublishAt("/staging/b", many)), FailsWith(StatusCode::kFailedPrecondition, "is staged at"));
  const MountFlags flags = FlagsAt("/pods/1");
  mounter_.With([&flags](FakeKernel& kernel) {
    kernel.DropMounts("/pods/1");
    BindRequest request;
    request.source = "/staging/a";
    request.target = "/pods/1";
    request.flags = flags;
    EXPECT_OK(kernel.Bind(request));
  });
  EXPECT_THAT(Publish(PublishAt("/pods/1", many)), FailsWith(StatusCode::kAlreadyExists, "without its idmap"));
  LoseRecords();
  EXPECT_THAT(Publish(PublishAt("/pods/1", many)), FailsWith(StatusCode::kAlreadyExists, "without its idmap"));
}

TEST_F(NodePublishTest, TargetIsNodevUnlessStageAndPublishNameDev) {
  Capability with_nodes = MountCapability();
  with_nodes.names_dev = true;
  StageIt(with_nodes);
  ASSERT_OK(Publish(PublishAt("/pods/1", with_nodes)));
  EXPECT_EQ(ToString(FlagsAt("/pods/1")), "rw,relatime");
  ASSERT_OK(Unpublish("/pods/1"));
  ASSERT_OK(Publish(PublishAt("/pods/1", MountCapability())));
  EXPECT_EQ(ToString(FlagsAt("/pods/1")), "rw,nodev,relatime");
  EXPECT_THAT(Publish(PublishAt("/pods/1", with_nodes)), FailsWith(StatusCode::kAlreadyExists, ""));
}

TEST_F(NodePublishTest, AccessTimeFlagOfPublishWins) {
  StageIt(WithFlags(MountCapability(), {"noatime"}));
  ASSERT_OK(Publish(PublishAt("/pods/1", WithFlags(MountCapability(), {"strictatime"}))));
  EXPECT_EQ(ToString(FlagsAt("/pods/1")), "rw,nodev,strictatime");
}

TEST_F(NodePublishTest, OtherFilesystemOptionsThanStagedAreRefused) {
  StageIt(WithFlags(MountCapability(), {"commit=30", "discard"}));
  const std::string before = World();
  EXPECT_THAT(Publish(PublishAt("/pods/1", WithFlags(MountCapability(), {"commit=5"}))),
              FailsWith(StatusCode::kFailedPrecondition, "other filesystem options"));
  EXPECT_EQ(World(), before);
  EXPECT_OK(Publish(PublishAt("/pods/1", WithFlags(MountCapability(), {"discard,commit=30"}))));
}

TEST_F(NodePublishTest, PublishWithoutFilesystemOptionsAcceptsStagedOnes) {
  StageIt(WithFlags(MountCapability(), {"commit=30"}));
  EXPECT_OK(Publish(PublishAt("/pods/1")));
}

TEST_F(NodePublishTest, ForeignMountAtStagingPathIsRefused) {
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignMount("/staging/b", "tmpfs"); });
  const std::string before = World();
  EXPECT_THAT(Publish(PublishAt("/pods/1", MountCapability(), "/staging/b")),
              FailsWith(StatusCode::kFailedPrecondition, "another mount is there"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodePublishTest, TargetThatBecameReadOnlyAlreadyExists) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  mounter_.With([](FakeKernel& kernel) {
    ListedMount changed = kernel.MountsAt("/pods/1").at(0).info;
    changed.flags.read_only = true;
    kernel.DropMounts("/pods/1");
    kernel.AddMount(changed);
  });
  EXPECT_THAT(Publish(PublishAt("/pods/1")), FailsWith(StatusCode::kAlreadyExists, "/pods/1"));
}

TEST_F(NodePublishTest, MessagesContainNoFilesystemOptions) {
  StageIt(WithFlags(MountCapability(), {"commit=33", "noexec"}));
  ASSERT_OK(Publish(PublishAt("/pods/1", WithFlags(MountCapability(), {"commit=33"}))));
  for (const char* target : {"/pods/1", "/pods/2"}) {
    const absl::Status status = Publish(PublishAt(target, WithFlags(MountCapability(), {"commit=44", "nosuid"})));
    ASSERT_FALSE(status.ok());
    for (const char* flag : {"33", "44", "noexec", "nosuid"}) EXPECT_THAT(Message(status), Not(HasSubstr(flag)));
  }
}

TEST_F(NodePublishTest, RepeatedPublishCompletesRecordOfKilledOne) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  LoseOutcomes();
  EXPECT_OK(Publish(PublishAt("/pods/1")));
  EXPECT_TRUE(store_->Get("/pods/1").value()->done);
}

}  // namespace
}  // namespace mooring::testing
