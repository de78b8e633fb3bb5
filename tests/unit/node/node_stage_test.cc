// NodeStageVolume and NodeUnstageVolume of filesystems.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

using NodeStageTest = NodeVolumesTest;

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

// The request names no filesystem, and an orchestrator may lose the volume's context.
TEST_F(NodeStageTest, FlagsOfAnotherFilesystemAreTheCallersMistake) {
  AddVolume("vol-x", "xfs", 512 * kMebi);
  Capability capability = MountCapability();
  capability.options.options = {{"commit", "5"}};
  const std::string before = World();
  EXPECT_THAT(Stage(StageAt("/staging/a", capability, "vol-x")),
              FailsWith(StatusCode::kInvalidArgument, "vol-x has an xfs filesystem, where mount flag 'commit'"));
  EXPECT_EQ(World(), before);
  SetFormatted(kVolume, "btrfs");  // made for ext4
  capability.options.options = {{"data", "ordered"}};
  EXPECT_THAT(Stage(StageAt("/staging/a", capability)), FailsWith(StatusCode::kFailedPrecondition, "btrfs"));
  EXPECT_THAT(AllRecords(), IsEmpty());
}

// A person has unmounted it.
TEST_F(NodeStageTest, RefusedMountLeavesNoRecordOfAnEarlierOne) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  ASSERT_OK(mounter_.With([](FakeKernel& kernel) { return kernel.Unmount({.target = "/staging/a"}); }));
  mounter_.Fail("Mount", FailedPrecondition("refused"));
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(StatusCode::kFailedPrecondition, "refused"));
  EXPECT_THAT(AllRecords(), IsEmpty());
}

TEST_F(NodeStageTest, ShortenedImageIsNotMounted) {
  SetFormatted(kVolume, "ext4", 128 * kMebi);
  const std::string before = World();
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(StatusCode::kFailedPrecondition, "cut short"));
  EXPECT_EQ(World(), before);
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

TEST_F(NodeStageTest, DamageFoundWhileGrowingFailsStage) {
  SetFormatted(kVolume, "xfs", 32 * kMebi);
  mounter_.Fail("Grow", absl::DataLossError("structure needs cleaning"));
  EXPECT_THAT(Stage(StageAt("/staging/a")), FailsWith(StatusCode::kInternal, "is damaged"));
  EXPECT_THAT(AllRecords(), IsEmpty());
}

TEST_F(NodeStageTest, NextStageGrowsXfsOfInterruptedStage) {
  SetFormatted(kVolume, "xfs");
  ASSERT_OK(Stage(StageAt("/staging/a")));
  LoseOutcomes();
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

TEST_F(NodeStageTest, SecondStagingPathSharesDevice) {
  ASSERT_OK(Stage(StageAt("/staging/a")));
  ASSERT_OK(Stage(ReadOnly(StageAt("/staging/b"))));
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

TEST_F(NodeStageTest, ReaderModesAndReadOnlyPublicationsStageReadOnly) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(AccessMode::kMultiNodeReaderOnly))));
  EXPECT_TRUE(FlagsAt("/staging/a").read_only);
  ASSERT_OK(Stage(StageAt("/staging/b", WithFlags(MountCapability(), {"ro", "noexec"}))));
  EXPECT_EQ(ToString(FlagsAt("/staging/b")), "ro,nodev,noexec,relatime");
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

TEST_F(NodeStageTest, MemoryHasItsSizeAndOneInodePerPage) {
  source_.Put({.id = "vol-m", .kind = BackendKind::kTmpfs, .bytes = 64 * kMebi, .fs_type = "tmpfs"});
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), "vol-m")));
  EXPECT_THAT(MountsAt("/staging/a").at(0).options,
              ElementsAre(FilesystemOption{"size", "67108864"}, FilesystemOption{"nr_inodes", "16384"},
                          FilesystemOption{"mode", "0755"}, FilesystemOption{"huge", "never"}));
}

// A copy of a target keeps its mapped ids, and the kernel maps them only once.
TEST_F(NodeStageTest, MemoryIsStagedAgainFromAMountWithoutMappedIds) {
  source_.Put({.id = "vol-m",
               .kind = BackendKind::kTmpfs,
               .bytes = 64 * kMebi,
               .fs_type = "tmpfs",
               .tuning = {.idmap = "b:0:100000:65536"}});
  const Capability many = MountCapability(AccessMode::kMultiNodeMultiWriter);
  mounter_.With([](FakeKernel& kernel) {
    for (const char* path : {"/staging/c", "/staging/z"}) kernel.AddDirectory(path);
  });
  ASSERT_OK(Stage(StageAt("/staging/z", many, "vol-m")));
  ASSERT_OK(Publish(PublishAt("/pods/a", many, "/staging/z", "vol-m")));
  for (const char* staging : {"/staging/b", "/staging/c"}) {
    ASSERT_OK(Stage(StageAt(staging, many, "vol-m")));
    EXPECT_EQ(MountsAt(staging).at(0).idmap, "");
    ASSERT_OK(Unstage(staging, "vol-m"));
    LoseRecords();
  }
  mounter_.With([](FakeKernel& kernel) { kernel.DropMounts("/staging/z"); });
  EXPECT_THAT(Stage(StageAt("/staging/b", many, "vol-m")),
              FailsWith(StatusCode::kFailedPrecondition, "is mounted only at '/pods/a', with idmap"));
}

TEST_F(NodeStageTest, DirectoryWithSameNameAndOtherInodeIsNotTheVolume) {
  const std::string id = "vol-00000000000000000000000000000002", path = "/dirs/" + id;
  const auto create = [&] {
    const PathInfo place = mounter_.With([&](FakeKernel& kernel) {
      kernel.RemovePath(path);
      kernel.AddDirectory(path);
      return kernel.Find(path).value();
    });
    source_.Put(
        {.id = id, .kind = BackendKind::kDirectory, .path = path, .inode = place.inode, .fs_type = "directory"});
  };
  create();
  const StageSpec stage = StageAt("/staging/a", MountCapability(), id);
  ASSERT_OK(Stage(stage));
  create();
  EXPECT_THAT(Stage(stage), FailsWith(StatusCode::kFailedPrecondition, "is a mount of"));
  EXPECT_THAT(Publish(PublishAt("/pods/t", MountCapability(), "/staging/a", id)),
              FailsWith(StatusCode::kFailedPrecondition, "not staged"));
  EXPECT_OK(Unstage("/staging/a", id));
}

}  // namespace
}  // namespace mooring::testing
