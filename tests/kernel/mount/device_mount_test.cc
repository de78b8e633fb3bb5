// Filesystems on images: what is mounted, how often, over how many loop devices, and what a failure leaves.
#include <sys/vfs.h>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

// The same for each filesystem.
class FilesystemMountTest : public KernelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string Type() const { return GetParam(); }
  std::string Image(const std::string& name) const { return ImageOf(Type(), name); }
  absl::Status Mount(const std::string& image, const std::string& target, const MountFlags& flags = {}) {
    MountRequest request = MountOf(image, target, Type());
    request.flags = flags;
    return mounter_.Mount(request);
  }
  absl::Status Unmount(const std::string& target) { return mounter_.Unmount(UnmountOf(target)); }
};

TEST_P(FilesystemMountTest, MountsTheImageThroughALoopDevice) {
  const std::string image = Image("image");
  ASSERT_OK(Mount(image, Path("target")));
  const MountLine line = *MountAt(Path("target"));
  EXPECT_EQ(line.fs_type, Type());
  EXPECT_EQ(line.root, "/");
  EXPECT_GT(BytesAt(Path("target")), 16 * kMiB);
  EXPECT_LE(BytesAt(Path("target")), static_cast<std::uint64_t>(StatOf(image).st_size));
  const std::vector<LoopLine> loops = LoopsOver(image);
  ASSERT_THAT(loops, SizeIs(1));
  EXPECT_EQ(line.source, loops[0].device);
  EXPECT_TRUE(loops[0].auto_clear);
  EXPECT_FALSE(loops[0].read_only);
}

TEST_P(FilesystemMountTest, KeepsDataOverUnmountAndMount) {
  const std::string image = Image("image");
  ASSERT_OK(Mount(image, Path("target")));
  ASSERT_EQ(TryWrite(Path("target/file"), "data"), 0);
  ASSERT_OK(Unmount(Path("target")));
  EXPECT_TRUE(NoLoopOver(image));
  ASSERT_OK(Mount(image, Path("other")));
  EXPECT_EQ(ReadFile(Path("other/file")), "data");
}

TEST_P(FilesystemMountTest, SecondMountIsTheSameFilesystemOverTheSameDevice) {
  const std::string image = Image("image");
  ASSERT_OK(Mount(image, Path("a")));
  ASSERT_OK(Mount(image, Path("b")));
  EXPECT_EQ(StatOf(Path("a")).st_dev, StatOf(Path("b")).st_dev);
  ASSERT_EQ(TryWrite(Path("a/file"), "written in a"), 0);
  EXPECT_EQ(ReadFile(Path("b/file")), "written in a");
  EXPECT_THAT(LoopsOver(image), SizeIs(1));
}

TEST_P(FilesystemMountTest, ReadOnlyMountBesideAWritableOne) {
  const std::string image = Image("image");
  ASSERT_OK(Mount(image, Path("rw")));
  ASSERT_OK(Mount(image, Path("ro"), ReadOnly()));
  ASSERT_EQ(TryWrite(Path("rw/file"), "data"), 0);
  EXPECT_EQ(ReadFile(Path("ro/file")), "data");
  EXPECT_EQ(TryWrite(Path("ro/file"), "x"), EROFS);
  EXPECT_TRUE(MountAt(Path("ro"))->Has("ro"));
  EXPECT_FALSE(MountAt(Path("rw"))->Has("ro"));
}

TEST_P(FilesystemMountTest, WritableMountBesideAReadOnlyOne) {
  const std::string image = Image("image");
  ASSERT_OK(Mount(image, Path("ro"), ReadOnly()));
  EXPECT_EQ(TryWrite(Path("ro/file"), "x"), EROFS);
  ASSERT_OK(Mount(image, Path("rw")));
  EXPECT_EQ(TryWrite(Path("rw/file"), "x"), 0);
}

TEST_P(FilesystemMountTest, LoopDeviceGoesWithTheLastMountInWhateverOrder) {
  const std::string image = Image("image");
  for (const auto& [first, last] : {std::pair("a", "b"), std::pair("b", "a")}) {
    ASSERT_OK(Mount(image, Path("a")));
    ASSERT_OK(Mount(image, Path("b")));
    ASSERT_OK(Unmount(Path(first)));
    EXPECT_THAT(LoopsOver(image), SizeIs(1));
    ASSERT_OK(Unmount(Path(last)));
    EXPECT_TRUE(NoLoopOver(image));
  }
}

TEST_P(FilesystemMountTest, BindOfTheMountKeepsTheLoopDeviceAlive) {
  const std::string image = Image("image");
  ASSERT_OK(Mount(image, Path("staging")));
  ASSERT_OK(mounter_.Bind(BindOf(Path("staging"), Path("target"))));
  ASSERT_OK(Unmount(Path("staging")));
  EXPECT_EQ(TryWrite(Path("target/file"), "x"), 0);
  ASSERT_OK(Unmount(Path("target")));
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_P(FilesystemMountTest, GroupOwnsTheRootOfAReadOnlyMountToo) {
  MountRequest request = MountOf(Image("image"), Path("target"), Type());
  request.flags = ReadOnly();
  request.group = 4711;
  ASSERT_OK(mounter_.Mount(request));
  EXPECT_EQ(StatOf(Path("target")).st_gid, 4711U);
  EXPECT_EQ(StatOf(Path("target")).st_mode & 07777U, 02775U);
  EXPECT_EQ(OptionsAt(Path("target")), "ro,relatime");
}

TEST_P(FilesystemMountTest, BlockDeviceAsSource) {
  const std::string device = Losetup(Image("image"));
  ASSERT_OK(Mount(device, Path("target")));
  EXPECT_EQ(MountAt(Path("target"))->source, device);
  EXPECT_THAT(LoopsOver(Path("image")), SizeIs(1));
}

TEST_P(FilesystemMountTest, DamagedSuperblockLeavesNothingAndSaysSo) {
  const std::string image = Image("image");
  const std::uint64_t at = Type() == "ext4"  ? 1024 + 4
                           : Type() == "xfs" ? 100
                                             : 65536 + 80;  // the block counts, the versions, the roots
  Overwrite(image, at, std::string(40, '\xff'));
  EXPECT_THAT(Mount(image, Path("target")), Refused("mount the " + Type() + " filesystem of '" + image + "'"));
  EXPECT_TRUE(MountsBelow(dir_.path()).empty());
  EXPECT_FALSE(Exists(Path("target")));
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_P(FilesystemMountTest, AnotherFilesystemThanAskedForLeavesNothing) {
  const std::string image = Type() == "ext4" ? XfsImage("image") : Ext4Image("image");
  EXPECT_THAT(Mount(image, Path("target")), Refused(image));
  EXPECT_FALSE(Exists(Path("target")));
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_P(FilesystemMountTest, FailureLeavesATargetThatWasThere) {
  const std::string image = Sparse("image", 32 * kMiB);
  EXPECT_FALSE(Mount(image, Dir("target")).ok());
  EXPECT_TRUE(Exists(Path("target")));
  EXPECT_TRUE(NoLoopOver(image));
}

INSTANTIATE_TEST_SUITE_P(Types, FilesystemMountTest, ::testing::Values("ext4", "xfs", "btrfs"),
                         [](const auto& test) { return std::string(test.param); });

struct OptionCase {
  std::string fs_type;
  FilesystemOption option;
};

class MountOptionTest : public KernelTest, public ::testing::WithParamInterface<OptionCase> {};

// The kernel accepts every option of the table.
TEST_P(MountOptionTest, IsTakenByTheKernel) {
  const std::string& type = GetParam().fs_type;
  MountRequest request = MountOf(ImageOf(type, "image"), Path("target"), type);
  request.options = {GetParam().option};
  ASSERT_OK(mounter_.Mount(request));
}

std::vector<OptionCase> OptionCases() {
  std::vector<OptionCase> cases;
  for (const char* fs_type : {"ext4", "xfs", "btrfs"}) {
    for (const FilesystemOption& option : AllowedOptions(fs_type)) cases.push_back({fs_type, option});
  }
  cases.push_back({"ext4", {"inode_readahead_blks", "32"}});
  cases.push_back({"xfs", {"logbufs", "5"}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Table, MountOptionTest, ::testing::ValuesIn(OptionCases()), [](const auto& test) {
  std::string name = test.param.fs_type + "_" + ToString({test.param.option});
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

class DeviceMountTest : public KernelTest {
 protected:
  absl::Status MountWith(const std::string& image, const FilesystemOption& option, const std::string& fs_type) {
    MountRequest request = MountOf(image, Path("target"), fs_type);
    request.options = {option};
    return mounter_.Mount(request);
  }
};

TEST_F(DeviceMountTest, OptionsReachTheFilesystem) {
  MountRequest request = MountOf(Ext4Image("image"), Path("target"));
  request.options = {{"commit", "30"}, {"data", "journal"}, {"lazytime", std::nullopt}};
  ASSERT_OK(mounter_.Mount(request));
  const MountLine line = *MountAt(Path("target"));
  EXPECT_TRUE(line.SuperHas("commit=30"));
  EXPECT_TRUE(line.SuperHas("data=journal"));
  EXPECT_TRUE(line.SuperHas("lazytime"));
}

TEST_F(DeviceMountTest, OptionOutsideTheTableNeverReachesTheKernel) {
  const std::string image = Ext4Image("image");
  for (const FilesystemOption& option : {FilesystemOption{"journal_path", "/dev/sda"},
                                         {"commit", "-1"},
                                         {"commit", "901"},
                                         {"sb", "131072"},
                                         {"context", "x"},
                                         {"ro", std::nullopt}}) {
    EXPECT_THAT(MountWith(image, option, "ext4"), FailsWith(StatusCode::kInvalidArgument, option.key));
  }
  EXPECT_FALSE(Exists(Path("target")));
  EXPECT_TRUE(NoLoopOver(image));
}

// Such an image would make the kernel open another device too.
TEST_F(DeviceMountTest, BtrfsImageOnSeveralDevicesIsRefused) {
  const std::string image = Sparse("image", 128 * kMiB), other = Losetup(Sparse("other", 128 * kMiB));
  ASSERT_EQ(Tool("mkfs.btrfs -q -K " + image + " " + other + " >/dev/null 2>&1"), 0);
  EXPECT_THAT(mounter_.Mount(MountOf(image, Path("target"), "btrfs")), Refused("on 2 devices"));
  EXPECT_FALSE(Exists(Path("target")));
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_F(DeviceMountTest, BtrfsIsMountedWholeWhicheverSubvolumeIsItsDefault) {
  const std::string image = BtrfsImage("image");
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"), "btrfs")));
  ASSERT_EQ(
      Tool("cd " + Path("target") + " && btrfs subvolume create part >/dev/null && btrfs subvolume set-default part"),
      0);
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("again"), "btrfs")));
  EXPECT_THAT(Entries(Path("again")), ElementsAre("part"));
}

// The table allows each of the two options.
TEST_F(DeviceMountTest, OptionThatTheKernelRefusesIsNamedAndLeavesNothing) {
  const std::string image = Ext4Image("image");
  MountRequest request = MountOf(image, Path("target"));
  request.options = {{"data", "journal"}, {"delalloc", std::nullopt}};
  EXPECT_THAT(mounter_.Mount(request), Refused(image));
  EXPECT_FALSE(Exists(Path("target")));
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_F(DeviceMountTest, UnknownFilesystemLeavesNothingAndIsNamed) {
  const std::string image = Ext4Image("image");
  EXPECT_THAT(mounter_.Mount(MountOf(image, Path("target"), "nosuchfs")), Refused("nosuchfs"));
  EXPECT_FALSE(Exists(Path("target")));
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_F(DeviceMountTest, MissingImageIsNotFound) {
  EXPECT_THAT(mounter_.Mount(MountOf(Path("image"), Path("target"))), FailsWith(StatusCode::kNotFound, Path("image")));
  EXPECT_FALSE(Exists(Path("target")));
}

TEST_F(DeviceMountTest, GrownImageIsSeenAtTheNextMount) {
  const std::string image = Ext4Image("image", 32 * kMiB);
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("a"))));
  ASSERT_EQ(::truncate(image.c_str(), 64 * kMiB), 0);
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("b"))));
  const std::string name = LoopsOver(image).front().device.substr(5);
  EXPECT_EQ(ReadFile("/sys/block/" + name + "/size"), "131072\n");
}

}  // namespace
}  // namespace mooring::testing
