// NodePublishVolume: the table of the second publish, read-only, flags, and existing mounts at the target.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class NodePublishTest : public NodeVolumesTest {
 protected:
  void StageIt(Capability capability = MountCapability()) { ASSERT_OK(Stage(StageAt("/staging/a", capability))); }
};

struct TableRow {
  AccessMode mode;
  bool second_target;
};

// CSI 1.12, NodePublishVolume, "the second publish". Arguments other than the target differ in `readonly`.
class PublishTableTest : public NodeVolumesTest,
                         public ::testing::WithParamInterface<std::tuple<TableRow, AccessType>> {
 protected:
  void PublishFirst() {
    capability_.mode = std::get<0>(GetParam()).mode;
    capability_.access_type = std::get<1>(GetParam());
    ASSERT_OK(Stage(StageAt("/staging/a", capability_)));
    ASSERT_OK(Publish(At("/pods/1")));
  }
  PublishSpec At(const std::string& target) { return PublishAt(target, capability_); }
  // Other arguments, in a mode that allows as much as this one.
  PublishSpec OtherAt(const std::string& target) {
    PublishSpec spec = At(target);
    if (!IsReaderOnly(capability_.mode)) {
      spec.read_only = true;
    } else if (spec.capability.access_type == AccessType::kMount) {
      spec.capability = WithFlags(capability_, {"noexec"});
    } else {
      spec.capability.mode = capability_.mode == AccessMode::kSingleNodeReaderOnly ? AccessMode::kSingleNodeWriter
                                                                                   : AccessMode::kMultiNodeMultiWriter;
    }
    return spec;
  }
  void ExpectSecondTarget(const PublishSpec& spec) {
    const std::string before = World();
    if (std::get<0>(GetParam()).second_target) {
      EXPECT_OK(Publish(spec));
      EXPECT_TRUE(IsMounted("/pods/1"));
      EXPECT_TRUE(IsMounted(spec.target_path));
    } else {
      EXPECT_THAT(Publish(spec), FailsWith(StatusCode::kFailedPrecondition, "/pods/1"));
      EXPECT_EQ(World(), before);
    }
  }

  Capability capability_;
};

TEST_P(PublishTableTest, SameTargetSameArgumentsIsOk) {
  PublishFirst();
  const std::string before = World();
  for (int i = 0; i < 10; ++i) EXPECT_OK(Publish(At("/pods/1")));
  EXPECT_EQ(World(), before);
}

TEST_P(PublishTableTest, SameTargetOtherArgumentsAlreadyExists) {
  PublishFirst();
  const std::string before = World();
  EXPECT_THAT(Publish(OtherAt("/pods/1")), FailsWith(StatusCode::kAlreadyExists, "/pods/1"));
  EXPECT_EQ(World(), before);
}

TEST_P(PublishTableTest, OtherTargetSameArguments) {
  PublishFirst();
  ExpectSecondTarget(At("/pods/2"));
}

TEST_P(PublishTableTest, OtherTargetOtherArguments) {
  PublishFirst();
  ExpectSecondTarget(OtherAt("/pods/2"));
}

INSTANTIATE_TEST_SUITE_P(Modes, PublishTableTest,
                         ::testing::Combine(::testing::Values(TableRow{AccessMode::kSingleNodeSingleWriter, false},
                                                              TableRow{AccessMode::kSingleNodeMultiWriter, true},
                                                              TableRow{AccessMode::kMultiNodeReaderOnly, true},
                                                              TableRow{AccessMode::kMultiNodeSingleWriter, true},
                                                              TableRow{AccessMode::kMultiNodeMultiWriter, true},
                                                              TableRow{AccessMode::kSingleNodeWriter, false},
                                                              TableRow{AccessMode::kSingleNodeReaderOnly, false}),
                                            ::testing::Values(AccessType::kMount, AccessType::kBlock)),
                         [](const auto& test) {
                           return ToString(std::get<0>(test.param).mode) + "_" + ToString(std::get<1>(test.param));
                         });

TEST_F(NodePublishTest, MultiWriterTargetBesideSingleWriterTargetIsRefused) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  EXPECT_THAT(Publish(PublishAt("/pods/2", MountCapability(AccessMode::kSingleNodeMultiWriter))),
              FailsWith(StatusCode::kFailedPrecondition, "SINGLE_NODE_WRITER allows one target"));
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
  PublishSpec other = PublishAt("/pods/1");
  other.read_only = true;
  EXPECT_OK(Publish(other));
  EXPECT_TRUE(FlagsAt("/pods/1").read_only);
}

TEST_F(NodePublishTest, MountDecidesWithoutRecords) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  LoseRecords();
  Restart();
  PublishSpec read_only = PublishAt("/pods/1");
  read_only.read_only = true;
  EXPECT_THAT(Publish(read_only), FailsWith(StatusCode::kAlreadyExists, "/pods/1"));
  EXPECT_OK(Publish(PublishAt("/pods/1")));
  EXPECT_THAT(RecordedPaths(), ElementsAre("/pods/1"));
  EXPECT_THAT(Publish(PublishAt("/pods/2")), FailsWith(StatusCode::kFailedPrecondition, "/pods/1"));
}

TEST_F(NodePublishTest, SecondProcessUsesRecordsOfFirst) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  Restart();
  EXPECT_OK(Publish(PublishAt("/pods/1")));
  EXPECT_THAT(Publish(PublishAt("/pods/2")), FailsWith(StatusCode::kFailedPrecondition, "/pods/1"));
  EXPECT_OK(Unpublish("/pods/1"));
  EXPECT_OK(Unstage("/staging/a"));
  ExpectNothingLeft();
}

TEST_F(NodePublishTest, EachReadOnlyRequestMakesTargetReadOnly) {
  const AccessMode many = AccessMode::kMultiNodeMultiWriter;
  StageIt(MountCapability(many));
  PublishSpec by_field = PublishAt("/pods/field", MountCapability(many));
  by_field.read_only = true;
  ASSERT_OK(Publish(by_field));
  ASSERT_OK(Publish(PublishAt("/pods/flag", WithFlags(MountCapability(many), {"ro"}))));
  ASSERT_OK(Publish(PublishAt("/pods/mode", MountCapability(AccessMode::kMultiNodeReaderOnly))));
  ASSERT_OK(Publish(PublishAt("/pods/writable", MountCapability(many))));
  for (const char* target : {"/pods/field", "/pods/flag", "/pods/mode"}) {
    EXPECT_TRUE(FlagsAt(target).read_only) << target;
  }
  EXPECT_FALSE(FlagsAt("/pods/writable").read_only);
}

TEST_F(NodePublishTest, TargetOfReadOnlyStagingIsReadOnly) {
  StageSpec staged = StageAt("/staging/a");
  staged.read_only = true;
  ASSERT_OK(Stage(staged));
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  EXPECT_TRUE(FlagsAt("/pods/1").read_only);
  EXPECT_OK(Publish(PublishAt("/pods/1")));
}

TEST_F(NodePublishTest, PublishAddsFlagsToFlagsOfStaging) {
  StageIt(WithFlags(MountCapability(), {"nosuid", "noatime", "nodiratime"}));
  ASSERT_OK(Publish(PublishAt("/pods/1", WithFlags(MountCapability(), {"nodev", "noexec", "suid"}))));
  EXPECT_EQ(ToString(FlagsAt("/pods/1")), "rw,nosuid,nodev,noexec,nodiratime,noatime");
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

TEST_F(NodePublishTest, OtherFilesystemThanStagedIsRefused) {
  StageIt();
  EXPECT_THAT(Publish(PublishAt("/pods/1", MountCapability(AccessMode::kSingleNodeWriter, "xfs"))),
              FailsWith(StatusCode::kFailedPrecondition, "staged as ext4, xfs is asked for"));
  EXPECT_FALSE(Exists("/pods/1"));
}

TEST_F(NodePublishTest, MounterGetsGroup) {
  Capability capability = MountCapability();
  capability.mount_group = 77;
  StageIt(capability);
  ASSERT_OK(Publish(PublishAt("/pods/1", capability)));
  EXPECT_EQ(mounter_.last_bind().group, gid_t{77});
  EXPECT_EQ(mounter_.last_bind().target_kind, TargetKind::kDirectory);
}

TEST_F(NodePublishTest, VolumeThatIsNotStagedIsRefused) {
  AddVolume("vol-b");
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignMount("/staging/b", "tmpfs"); });
  const std::string before = World();
  EXPECT_THAT(Publish(PublishAt("/pods/1", MountCapability(), "")),
              FailsWith(StatusCode::kFailedPrecondition, "staging_target_path is missing"));
  EXPECT_THAT(Publish(PublishAt("/pods/1")), FailsWith(StatusCode::kFailedPrecondition, "nothing is mounted there"));
  EXPECT_THAT(Publish(PublishAt("/pods/1", MountCapability(), "/missing/path")),
              FailsWith(StatusCode::kFailedPrecondition, "NodeStageVolume comes first"));
  EXPECT_THAT(Publish(PublishAt("/pods/1", MountCapability(), "/staging/b")),
              FailsWith(StatusCode::kFailedPrecondition, "another mount is there"));
  EXPECT_EQ(World(), before);
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), "vol-b")));
  EXPECT_THAT(Publish(PublishAt("/pods/1")), FailsWith(StatusCode::kFailedPrecondition, "volume vol-b is there"));
}

TEST_F(NodePublishTest, UnknownVolumeIsNotFound) {
  EXPECT_THAT(Publish(PublishAt("/pods/1", MountCapability(), "/staging/a", "vol-none")),
              FailsWith(StatusCode::kNotFound, "vol-none"));
}

TEST_F(NodePublishTest, TargetMustBeEmptyDirectoryOrMissing) {
  StageIt();
  mounter_.With([](FakeKernel& kernel) {
    kernel.AddDirectory("/pods/empty");
    kernel.AddFile("/pods/full/file", 1);
    kernel.AddFile("/pods/file", 0);
    kernel.AddSymlink("/pods/link");
    kernel.AddForeignMount("/pods/foreign", "nfs4");
  });
  const std::string before = World();
  for (const char* target : {"/pods/full", "/pods/file", "/pods/link", "/pods/link/x", "/pods/foreign"}) {
    EXPECT_THAT(Publish(PublishAt(target)), FailsWith(StatusCode::kFailedPrecondition, target)) << target;
  }
  EXPECT_THAT(Publish(PublishAt("/missing/parent")), FailsWith(StatusCode::kFailedPrecondition, "/missing"));
  EXPECT_EQ(World(), before);
  EXPECT_OK(Publish(PublishAt("/pods/empty")));
}

TEST_F(NodePublishTest, TargetOfAnotherVolumeIsRefused) {
  AddVolume("vol-b");
  StageIt();
  ASSERT_OK(Stage(StageAt("/staging/b", MountCapability(), "vol-b")));
  ASSERT_OK(Publish(PublishAt("/pods/1", MountCapability(), "/staging/b", "vol-b")));
  const std::string before = World();
  EXPECT_THAT(Publish(PublishAt("/pods/1")), FailsWith(StatusCode::kFailedPrecondition, "volume vol-b"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodePublishTest, BlockAccessAtMountedTargetAlreadyExists) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  const std::string before = World();
  EXPECT_THAT(Publish(PublishAt("/pods/1", BlockCapability())), FailsWith(StatusCode::kAlreadyExists, "/pods/1"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodePublishTest, RecordAnswersRepeatedPublishAfterUnstage) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_OK(Publish(PublishAt("/pods/1")));
  PublishSpec other = PublishAt("/pods/1");
  other.read_only = true;
  EXPECT_THAT(Publish(other), FailsWith(StatusCode::kAlreadyExists, "/pods/1"));
}

TEST_F(NodePublishTest, TargetThatBecameReadOnlyAlreadyExists) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  mounter_.With([](FakeKernel& kernel) {
    MountInfo changed = kernel.MountsAt("/pods/1").at(0).info;
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

TEST_F(NodePublishTest, FailedBindLeavesNoTargetAndNoRecord) {
  StageIt();
  const std::string before = World();
  mounter_.Fail("Bind", ResourceExhausted("no room"));
  EXPECT_THAT(Publish(PublishAt("/pods/1")), FailsWith(StatusCode::kResourceExhausted, "no room"));
  EXPECT_EQ(World(), before);
  EXPECT_OK(Publish(PublishAt("/pods/1")));
}

TEST_F(NodePublishTest, RepeatedPublishCompletesRecordOfKilledOne) {
  StageIt();
  ASSERT_OK(Publish(PublishAt("/pods/1")));
  VolumeUse intent = *store_->Get("/pods/1").value();
  intent.done = false;
  ASSERT_OK(store_->Put(intent));
  EXPECT_OK(Publish(PublishAt("/pods/1")));
  EXPECT_TRUE(store_->Get("/pods/1").value()->done);
}

}  // namespace
}  // namespace mooring::testing
