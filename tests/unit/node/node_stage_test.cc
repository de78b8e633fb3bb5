// NodeStageVolume and NodeUnstageVolume of filesystems.
#include <chrono>
#include <thread>

#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using NodeStageTest = NodeVolumesTest;

TEST_F(NodeStageTest, EmptyVolumeIsNotFormattedWithOtherType) {
  const std::string before = World();
  EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(AccessMode::kSingleNodeWriter, "xfs"))),
              FailsWith(StatusCode::kFailedPrecondition, "was made for ext4, xfs was asked for"));
  EXPECT_THAT(mounter_.Calls("Format"), IsEmpty());
  EXPECT_EQ(World(), before);
}

TEST_F(NodeStageTest, EmptyVolumeIsFormattedWithRequestedType) {
  AddVolume("vol-x", "xfs", 512 * kMebi);
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(AccessMode::kSingleNodeWriter, "xfs"), "vol-x")));
  EXPECT_THAT(mounter_.Calls("Format"), ElementsAre("Format /images/vol-x.img xfs"));
  EXPECT_EQ(MountsAt("/staging/a").at(0).info.fs_type, "xfs");
}

TEST_F(NodeStageTest, EmptyVolumeIsFormattedWithItsOwnType) {
  AddVolume("vol-x", "xfs", 512 * kMebi);
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), "vol-x")));
  EXPECT_THAT(mounter_.Calls("Format"), ElementsAre("Format /images/vol-x.img xfs"));
}

TEST_F(NodeStageTest, TooSmallVolumeIsNotFormatted) {
  AddVolume("vol-x", "xfs", 300 * kMebi - 4096);
  AddVolume("vol-e", "ext4", 16 * kMebi - 4096);
  EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(), "vol-x")),
              FailsWith(StatusCode::kFailedPrecondition, "xfs needs at least 300 MiB"));
  EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(), "vol-e")),
              FailsWith(StatusCode::kFailedPrecondition, "ext4 needs at least 16 MiB"));
  EXPECT_THAT(mounter_.Calls("Format"), IsEmpty());
}

TEST_F(NodeStageTest, FormattedVolumeIsNotFormattedAgain) {
  SetFormatted(kVolume, "ext4");
  ASSERT_OK(Stage(StageAt("/staging/a")));
  EXPECT_THAT(mounter_.Calls("Format"), IsEmpty());
  EXPECT_THAT(mounter_.Calls("Check"), IsEmpty());
  EXPECT_THAT(mounter_.Calls("Grow"), IsEmpty());
}

TEST_F(NodeStageTest, StagedMountIsPrivateAndDeviceIsLabelled) {
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignMount("/staging", "tmpfs", 7); });
  ASSERT_OK(Stage(StageAt("/staging/a")));
  EXPECT_FALSE(MountsAt("/staging/a").at(0).info.shared());
  ASSERT_THAT(Loops(), SizeIs(1));
  EXPECT_EQ(Loops()[0].label, "mooring:vol-a");
  EXPECT_TRUE(Loops()[0].auto_clear);
}

TEST_F(NodeStageTest, ForeignContentIsNeitherFormattedNorMounted) {
  SetFilesystem(kVolume, {FilesystemInfo::Content::kForeign, "LVM2_member", 0, false, ""});
  const std::string before = World();
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(StatusCode::kFailedPrecondition, "LVM2_member"));
  EXPECT_THAT(mounter_.Calls("Format"), IsEmpty());
  EXPECT_EQ(World(), before);
}

TEST_F(NodeStageTest, OtherFilesystemThanRequestedStays) {
  SetFormatted(kVolume, "xfs");
  const std::string before = World();
  EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(AccessMode::kSingleNodeWriter, "ext4"))),
              FailsWith(StatusCode::kFailedPrecondition, "holds an xfs filesystem, ext4 was asked for"));
  EXPECT_EQ(World(), before);
  EXPECT_EQ(Filesystem(kVolume).type, "xfs");
}

TEST_F(NodeStageTest, ShortenedImageIsNotMounted) {
  SetFormatted(kVolume, "ext4", 128 * kMebi);
  const std::string before = World();
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(StatusCode::kFailedPrecondition, "cut short"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeStageTest, ShortenedImageIsNeitherFormattedNorAttached) {
  NodeVolume volume = source_.Find(kVolume).value();
  volume.made_bytes = volume.bytes + 1;
  source_.Put(volume);
  const std::string before = World();
  for (const Capability& capability : {MountCapability(), BlockCapability()}) {
    EXPECT_THAT(Stage(StageAt("/staging/a", capability)), FailsWith(StatusCode::kFailedPrecondition, "cut short"));
  }
  EXPECT_EQ(World(), before);
  EXPECT_THAT(mounter_.Calls("Format"), IsEmpty());
}

TEST_F(NodeStageTest, UncleanFilesystemIsCheckedBeforeMount) {
  SetFilesystem(kVolume, {FilesystemInfo::Content::kFilesystem, "ext4", 64 * kMebi, true, ""});
  ASSERT_OK(Stage(StageAt("/staging/a")));
  EXPECT_THAT(mounter_.Calls("Check"), ElementsAre("Check /images/vol-a.img ext4"));
}

TEST_F(NodeStageTest, SmallerExt4IsGrownBeforeMount) {
  SetFormatted(kVolume, "ext4", 32 * kMebi);
  ASSERT_OK(Stage(StageAt("/staging/a")));
  EXPECT_THAT(mounter_.Calls("Grow"), ElementsAre("Grow /images/vol-a.img ext4"));
  EXPECT_EQ(Filesystem(kVolume).size_bytes, 64 * kMebi);
}

TEST_F(NodeStageTest, SmallerXfsOrBtrfsIsGrownAfterMount) {
  for (const std::string fs_type : {"xfs", "btrfs"}) {
    const std::string id = "vol-" + fs_type, staging = "/staging/" + fs_type;
    AddVolume(id, fs_type, 512 * kMebi);
    mounter_.With([&](FakeKernel& kernel) { kernel.AddDirectory(staging); });
    SetFormatted(id, fs_type, 320 * kMebi);
    ASSERT_OK(Stage(StageAt(staging, MountCapability(AccessMode::kSingleNodeWriter, fs_type), id)));
    EXPECT_THAT(mounter_.Calls("Grow").back(), "Grow " + staging + " " + fs_type);
    EXPECT_EQ(Filesystem(id).size_bytes, 512 * kMebi);
  }
}

TEST_F(NodeStageTest, DamageFoundWhileGrowingFailsStage) {
  SetFormatted(kVolume, "xfs", 32 * kMebi);
  mounter_.Fail("Grow", absl::DataLossError("structure needs cleaning"));
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(absl::StatusCode::kInternal, "is damaged"));
  EXPECT_THAT(AllRecords(), IsEmpty());
}

TEST_F(NodeStageTest, NextStageGrowsXfsOfInterruptedStage) {
  SetFormatted(kVolume, "xfs");
  ASSERT_OK(Stage(StageAt("/staging/a")));
  VolumeUse intent = AllRecords().at(0);
  intent.done = false;
  ASSERT_OK(store_->Put(intent));
  SetFormatted(kVolume, "xfs", 32 * kMebi);
  mounter_.ClearLog();
  ASSERT_OK(Stage(StageAt("/staging/a")));
  EXPECT_EQ(Filesystem(kVolume).size_bytes, 64 * kMebi);
  ASSERT_OK(Stage(StageAt("/staging/a")));
  EXPECT_THAT(mounter_.Calls("Grow"), ElementsAre("Grow /staging/a xfs")) << "once it is on record as done, no more";
}

TEST_F(NodeStageTest, FilesystemInUseIsNeitherCheckedNorGrown) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  GrowImage(kVolume, 128 * kMebi);
  mounter_.With([](FakeKernel& kernel) { kernel.Node(Image(kVolume)).filesystem.needs_check = true; });
  ASSERT_OK(Stage(StageAt("/staging/b")));
  EXPECT_THAT(mounter_.Calls("Check"), IsEmpty());
  EXPECT_THAT(mounter_.Calls("Grow"), IsEmpty());
}

struct StepCase {
  std::string operation, fs_type;
};

class NodeStageFailureTest : public NodeVolumesTest, public ::testing::WithParamInterface<StepCase> {};

TEST_P(NodeStageFailureTest, FailedStepLeavesNothing) {
  if (GetParam().operation == "Check") {
    SetFilesystem(kVolume, {FilesystemInfo::Content::kFilesystem, "ext4", 64 * kMebi, true, ""});
  }
  const std::string before = World();
  mounter_.Fail(GetParam().operation, ResourceExhausted("injected"));
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(StatusCode::kResourceExhausted, "injected"));
  EXPECT_FALSE(mounter_.HasFaults());
  EXPECT_EQ(World(), before);
  EXPECT_OK(Stage(StageAt("/staging/a")));
}

INSTANTIATE_TEST_SUITE_P(Steps, NodeStageFailureTest,
                         ::testing::Values(StepCase{"Format", "ext4"}, StepCase{"Check", "ext4"},
                                           StepCase{"Mount", "ext4"}, StepCase{"Probe", "ext4"}),
                         [](const auto& test) { return test.param.operation + "_" + test.param.fs_type; });

TEST_F(NodeStageTest, UnrecordedOutcomeIsNoFailure) {
  RefuseOutcomes();
  ASSERT_OK(Stage(StageAt("/staging/a")));
  ASSERT_OK(Publish(PublishAt("/pods/t")));
  ASSERT_OK(Stage(StageAt("/staging/a")));
  ASSERT_OK(Publish(PublishAt("/pods/t")));
  EXPECT_EQ(MountCount(), 2U);
  ASSERT_OK(Unpublish("/pods/t"));
  ASSERT_OK(Unstage("/staging/a"));
  ExpectNothingLeft();
}

TEST_F(NodeStageTest, TenStagesMountOnce) {
  for (int i = 0; i < 10; ++i) ASSERT_OK(Stage(StageAt("/staging/a")));
  EXPECT_THAT(MountsAt("/staging/a"), SizeIs(1));
  EXPECT_THAT(Loops(), SizeIs(1));
}

TEST_F(NodeStageTest, OtherCapabilityAtSamePathAlreadyExists) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(AccessMode::kSingleNodeWriter, "ext4"))));
  const std::string before = World();
  const std::vector<Capability> others = {
      MountCapability(AccessMode::kMultiNodeMultiWriter, "ext4"),
      MountCapability(AccessMode::kSingleNodeWriter, "xfs"),
      MountCapability(AccessMode::kSingleNodeReaderOnly, "ext4"),
      WithFlags(MountCapability(AccessMode::kSingleNodeWriter, "ext4"), {"noatime"}),
      WithFlags(MountCapability(AccessMode::kSingleNodeWriter, "ext4"), {"discard"}),
      BlockCapability(),
  };
  for (const Capability& other : others) {
    EXPECT_THAT(Stage(StageAt("/staging/a", other)), FailsWith(StatusCode::kAlreadyExists, "/staging/a"))
        << ToString(other);
  }
  EXPECT_EQ(World(), before);
}

TEST_F(NodeStageTest, SecondStagingPathSharesDevice) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  StageSpec read_only = StageAt("/staging/b");
  read_only.read_only = true;
  ASSERT_OK(Stage(read_only));
  EXPECT_THAT(Loops(), SizeIs(1));
  EXPECT_FALSE(FlagsAt("/staging/a").read_only);
  EXPECT_TRUE(FlagsAt("/staging/b").read_only);
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_THAT(Loops(), SizeIs(1));
  ASSERT_OK(Unstage("/staging/b"));
  ExpectNothingLeft();
}

TEST_F(NodeStageTest, SecondStagingPathWithOtherFilesystemOptionsIsRefused) {
  ASSERT_OK(Stage(StageAt("/staging/a", WithFlags(MountCapability(), {"discard"}))));
  const std::string before = World();
  EXPECT_THAT(Stage(StageAt("/staging/b", WithFlags(MountCapability(), {"commit=30"}))),
              FailsWith(StatusCode::kFailedPrecondition, "other filesystem options"));
  EXPECT_THAT(Stage(StageAt("/staging/b")), FailsWith(StatusCode::kFailedPrecondition, "/staging/a"));
  EXPECT_EQ(World(), before);
  EXPECT_OK(Stage(StageAt("/staging/b", WithFlags(MountCapability(), {"noatime", "discard"}))));
}

TEST_F(NodeStageTest, MessagesContainNoMountFlags) {
  ASSERT_OK(Stage(StageAt("/staging/a", WithFlags(MountCapability(), {"commit=33", "noexec"}))));
  for (const char* path : {"/staging/a", "/staging/b"}) {
    const absl::Status status = Stage(StageAt(path, WithFlags(MountCapability(), {"commit=44", "nosuid"})));
    ASSERT_FALSE(status.ok());
    for (const char* flag : {"33", "44", "noexec", "nosuid"}) EXPECT_THAT(Message(status), Not(HasSubstr(flag)));
  }
}

TEST_F(NodeStageTest, OptionsOfStagingWithoutMountDoNotCount) {
  ASSERT_OK(Stage(StageAt("/staging/a", WithFlags(MountCapability(), {"discard"}))));
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/staging/a"); });
  EXPECT_OK(Stage(StageAt("/staging/b")));
}

TEST_F(NodeStageTest, StagingPathMustBeEmptyDirectory) {
  mounter_.With([](FakeKernel& kernel) {
    kernel.AddFile("/staging/file", 0);
    kernel.AddSymlink("/staging/link");
    kernel.AddFile("/staging/full/file", 1);
  });
  const std::string before = World();
  for (const char* path :
       {"/staging/missing", "/missing/parent", "/staging/file", "/staging/link", "/staging/link/x"}) {
    EXPECT_THAT(Stage(StageAt(path)), FailsWith(StatusCode::kFailedPrecondition, path)) << path;
    EXPECT_THAT(Stage(StageAt(path, BlockCapability())), FailsWith(StatusCode::kFailedPrecondition, path)) << path;
  }
  EXPECT_THAT(Stage(StageAt("/staging/full")), FailsWith(StatusCode::kFailedPrecondition, "not empty"));
  EXPECT_EQ(World(), before);
  EXPECT_EQ(Filesystem(kVolume).content, FilesystemInfo::Content::kEmpty);
}

TEST_F(NodeStageTest, StagingPathWithAnotherMountIsRefused) {
  AddVolume("vol-b");
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignMount("/staging/a", "nfs4"); });
  ASSERT_OK(Stage(StageAt("/staging/b", MountCapability(), "vol-b")));
  const std::string before = World();
  for (const Capability& capability : {MountCapability(), BlockCapability()}) {
    EXPECT_THAT(Stage(StageAt("/staging/a", capability)), FailsWith(StatusCode::kFailedPrecondition, "nfs4"));
    EXPECT_THAT(Stage(StageAt("/staging/b", capability)), FailsWith(StatusCode::kFailedPrecondition, "volume vol-b"));
  }
  EXPECT_EQ(World(), before);
}

TEST_F(NodeStageTest, UnknownVolumeIsNotFound) {
  EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(), "vol-none")),
              FailsWith(StatusCode::kNotFound, "vol-none"));
  source_.FailFromNow(Internal("catalog broken"));
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(StatusCode::kInternal, "catalog broken"));
}

TEST_F(NodeStageTest, ReaderModesAndReadOnlyPublicationsStageReadOnly) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(AccessMode::kMultiNodeReaderOnly))));
  EXPECT_TRUE(FlagsAt("/staging/a").read_only);
  ASSERT_OK(Stage(StageAt("/staging/b", WithFlags(MountCapability(), {"ro", "noexec"}))));
  EXPECT_EQ(ToString(FlagsAt("/staging/b")), "ro,nodev,noexec,relatime");
}

TEST_F(NodeStageTest, MountGetsFlagsOptionsAndGroup) {
  Capability capability = WithFlags(MountCapability(), {"nosuid,nodev", "noatime", "commit=30"});
  capability.mount_group = 1234;
  ASSERT_OK(Stage(StageAt("/staging/a", capability)));
  EXPECT_EQ(ToString(FlagsAt("/staging/a")), "rw,nosuid,nodev,noatime");
  EXPECT_EQ(ToString(mounter_.last_mount().options), "commit=30");
  EXPECT_EQ(mounter_.last_mount().group, gid_t{1234});
}

TEST_F(NodeStageTest, NewMountIsNodevUnlessDevIsNamed) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  EXPECT_EQ(ToString(FlagsAt("/staging/a")), "rw,nodev,relatime");
  Capability with_nodes = MountCapability();
  with_nodes.names_dev = true;
  EXPECT_THAT(Stage(StageAt("/staging/a", with_nodes)), FailsWith(StatusCode::kAlreadyExists, ""));
  ASSERT_OK(Stage(StageAt("/staging/b", with_nodes)));
  EXPECT_EQ(ToString(FlagsAt("/staging/b")), "rw,relatime");
}

TEST_F(NodeStageTest, MountDecidesWithoutRecord) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  LoseRecords();
  EXPECT_THAT(Stage(StageAt("/staging/a", BlockCapability())), FailsWith(StatusCode::kAlreadyExists, "ext4"));
  EXPECT_THAT(Stage(StageAt("/staging/a", WithFlags(MountCapability(), {"ro"}))),
              FailsWith(StatusCode::kAlreadyExists, "ext4"));
  EXPECT_OK(Stage(StageAt("/staging/a")));
  EXPECT_THAT(MountsAt("/staging/a"), SizeIs(1));
  EXPECT_THAT(RecordedPaths(), ElementsAre("/staging/a"));
}

TEST_F(NodeStageTest, StageMountsAgainWhereMountIsGone) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/staging/a"); });
  EXPECT_OK(Stage(StageAt("/staging/a", WithFlags(MountCapability(), {"noatime"}))));
  EXPECT_THAT(MountsAt("/staging/a"), SizeIs(1));
}

TEST_F(NodeStageTest, ImageMountedByAnotherProgramIsRefused) {
  SetFormatted(kVolume, "ext4");
  for (const bool auto_clear : {true, false}) {
    mounter_.With([&](FakeKernel& kernel) {
      kernel.Reboot();
      kernel.AddForeignLoop(Image(kVolume), Image(kVolume), auto_clear);
    });
    const std::string before = World();
    for (const Capability& capability : {MountCapability(), BlockCapability()}) {
      EXPECT_THAT(Stage(StageAt("/staging/a", capability)), FailsWith(StatusCode::kFailedPrecondition, "/dev/loop0"));
    }
    EXPECT_EQ(World(), before);
  }
}

TEST_F(NodeStageTest, StageWaitsForDisappearingDevice) {
  SetFormatted(kVolume, "ext4", 32 * kMebi);
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignLoop(Image(kVolume), LabelFor(kVolume), true); });
  std::thread last_user([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/nowhere"); });
  });
  EXPECT_OK(Stage(StageAt("/staging/a")));
  last_user.join();
  EXPECT_EQ(Filesystem(kVolume).size_bytes, 64 * kMebi) << "it was no use, so the filesystem grew";
}

// As losetup -D leaves a device that a process holds open.
TEST_F(NodeStageTest, DeviceThatDoesNotDisappearIsDetached) {
  SetFormatted(kVolume, "ext4");
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignLoop(Image(kVolume), LabelFor(kVolume), true); });
  EXPECT_OK(Stage(StageAt("/staging/a")));
  const auto loops = mounter_.FindLoops(Image(kVolume));
  ASSERT_OK(loops);
  EXPECT_THAT(*loops, SizeIs(1)) << "the mount's own";
}

TEST_F(NodeStageTest, UnstageOfUnstagedVolumeIsOk) {
  EXPECT_OK(Unstage("/staging/a"));
  EXPECT_OK(Unstage("/staging/missing"));
  EXPECT_OK(Unstage("/missing/parent"));
  EXPECT_OK(Unstage("/staging/a", "vol-none"));
  EXPECT_TRUE(Exists("/staging/a"));
}

TEST_F(NodeStageTest, UnstageKeepsDirectoryAndFreesDevice) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_TRUE(Exists("/staging/a"));
  ExpectNothingLeft();
  EXPECT_OK(Unstage("/staging/a"));
}

TEST_F(NodeStageTest, UnstageOfUnknownVolumeCleansPath) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  source_.Forget(kVolume);
  EXPECT_OK(Unstage("/staging/a", kVolume));
  ExpectNothingLeft();
}

TEST_F(NodeStageTest, UnstageKeepsForeignMountsAndOtherVolumes) {
  AddVolume("vol-b");
  mounter_.With([](FakeKernel& kernel) { kernel.AddForeignMount("/staging/b", "tmpfs"); });
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), "vol-b")));
  const std::string before = World();
  EXPECT_THAT(Unstage("/staging/a"), FailsWith(StatusCode::kFailedPrecondition, "volume vol-b"));
  EXPECT_THAT(Unstage("/staging/b"), FailsWith(StatusCode::kFailedPrecondition, "tmpfs"));
  EXPECT_EQ(World(), before);
}

TEST_F(NodeStageTest, TargetsKeepDeviceAfterUnstageForNextStage) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  ASSERT_OK(Publish(PublishAt("/pods/t")));
  ASSERT_OK(Unstage("/staging/a"));
  EXPECT_TRUE(IsMounted("/pods/t"));
  ASSERT_THAT(Loops(), SizeIs(1));
  ASSERT_OK(Stage(StageAt("/staging/a")));
  EXPECT_THAT(Loops(), SizeIs(1));
  ASSERT_OK(Unstage("/staging/a"));
  ASSERT_OK(Unpublish("/pods/t"));
  ExpectNothingLeft();
}

TEST_F(NodeStageTest, BusyStagingPathFails) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  mounter_.With([](FakeKernel& kernel) { kernel.SetBusy("/staging/a", true); });
  EXPECT_THAT(Unstage("/staging/a"), FailsWith(StatusCode::kFailedPrecondition, "fuser"));
  EXPECT_THAT(RecordedPaths(), Not(IsEmpty()));
  mounter_.With([](FakeKernel& kernel) { kernel.SetBusy("/staging/a", false); });
  EXPECT_OK(Unstage("/staging/a"));
  ExpectNothingLeft();
}

}  // namespace
}  // namespace mooring::testing
