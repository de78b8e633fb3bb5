// `mooring mount device` and `mount image` with filesystems beside ext4, xfs and btrfs.
#include <fmt/format.h>

#include <array>
#include <tuple>

#include "tests/kernel/cli/cli_program.h"
#include "tests/support/squashfs.h"

namespace mooring::testing {
namespace {

using ::testing::AllOf;

class CliMountTypesTest : public CliTest {
 protected:
  // Image "image" with this filesystem.
  void MakeImage(const std::string& fs_type) const {
    Sparse("image", 16 * kMiB);
    ASSERT_EQ(Tool("mke2fs -q -F -t " + fs_type + " '" + Path("image") + "'"), 0);
  }
};

TEST_F(CliMountTypesTest, NamedTypeTakesTheOptionsOfItsDriver) {
  for (const char* type : {"ext2", "ext3"}) {
    MakeImage(type);
    const Ran ran =
        Mooring(fmt::format("mount image image dst --fs-type {} --nosuid --nodev --noexec --option "
                            "resuid=5,sync,_netdev,X-mount.mkdir --option strictatime",
                            type));
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(MountAt(Path("dst"))->fs_type, type);
    EXPECT_TRUE(MountAt(Path("dst"))->SuperHas("resuid=5"));
    EXPECT_TRUE(MountAt(Path("dst"))->SuperHas("sync"));
    EXPECT_TRUE(MountAt(Path("dst"))->SuperHas("errors=remount-ro"));
    EXPECT_EQ(OptionsAt(Path("dst")), "rw,nosuid,nodev,noexec");
    EXPECT_EQ(Mooring("umount dst --remove").status, 0);
    EXPECT_TRUE(NoLoopOver(Path("image")));
  }
}

TEST_F(CliMountTypesTest, OptionsNeedANameAndTheConsentOfTheDriver) {
  MakeImage("ext2");
  const Ran unnamed = Mooring("mount image image dst --option resuid=5");
  EXPECT_EQ(unnamed.status, 2);
  EXPECT_THAT(unnamed.err, HasSubstr("'resuid' is not allowed for ext2"));
  const Ran unknown = Mooring("mount image image dst --fs-type ext2 --option frob");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("option frob"), HasSubstr("Unknown parameter")));
  const Ran order = Mooring("mount image image dst --fs-type ext2 --option bind");
  EXPECT_EQ(order.status, 2);
  EXPECT_THAT(order.err, HasSubstr("'bind' is no option of a filesystem"));
  const Ran other = Mooring("mount image image dst --fs-type ext3");
  EXPECT_THAT(other.err, HasSubstr("holds ext2, not ext3"));
  EXPECT_FALSE(Exists(Path("dst")));
  EXPECT_TRUE(NoLoopOver(Path("image")));
  EXPECT_EQ(Mooring("mount image image dst").status, 0);
}

TEST_F(CliMountTypesTest, ReadOnlyMediumIsMountedReadOnlyAlone) {
  MakeImage("ext2");
  const std::string device = Losetup("-r '" + Path("image") + "'");
  const Ran writable = Mooring("mount device " + device + " dst --fs-type ext2");
  EXPECT_EQ(writable.status, 1);
  EXPECT_THAT(writable.err, HasSubstr("mount the volume read-only"));
  EXPECT_FALSE(Exists(Path("dst")));
  const Ran ran = Mooring("mount device " + device + " dst --fs-type ext2 --read-only --noatime");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(OptionsAt(Path("dst")), "ro,noatime");
}

TEST_F(CliMountTypesTest, ATypeThatIsOnlyRead) {
  if (ReadFile("/proc/filesystems").find("\tsquashfs\n") == std::string::npos) GTEST_SKIP() << "no squashfs";
  File("image", SquashfsWith("file", "text"));
  const Ran ran = Mooring("mount image image dst --fs-type squashfs --nosuid --nodev");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(MountAt(Path("dst"))->fs_type, "squashfs");
  EXPECT_EQ(ReadFile(Path("dst/file")), "text");
  EXPECT_EQ(TryWrite(Path("dst/file"), "x"), EROFS);
  EXPECT_EQ(Mooring("mount image image again --read-only").status, 0);
  EXPECT_EQ(OptionsAt(Path("again")), "ro,relatime");
  EXPECT_THAT(LoopsOver(Path("image")), SizeIs(1));
  EXPECT_EQ(Mooring("umount again --remove").status, 0);
  EXPECT_EQ(Mooring("umount dst --remove").status, 0);
  EXPECT_TRUE(NoLoopOver(Path("image")));
}

// tests/vm has a kernel with both.
TEST_F(CliMountTypesTest, FilesystemsOfOtherSystems) {
  constexpr std::array kOthers = {std::tuple("vfat", "mkfs.vfat", ""), std::tuple("ntfs3", "mkfs.ntfs", "-Q -q -F")};
  std::string missing;
  for (const auto& [type, maker, flags] : kOthers) {
    if (ReadFile("/proc/filesystems").find(fmt::format("\t{}\n", type)) == std::string::npos ||
        Shell(fmt::format("command -v {} >/dev/null", maker)) != 0) {
      missing += fmt::format("no {}. ", type);
      continue;
    }
    Sparse("image", 16 * kMiB);
    ASSERT_EQ(Shell(fmt::format("{} {} image >/dev/null", maker, flags)), 0);
    const Ran ran = Mooring(fmt::format("mount image image dst --fs-type {} --option uid=5,umask=077,sync", type));
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(MountAt(Path("dst"))->fs_type, type);
    EXPECT_EQ(TryWrite(Path("dst/file"), "x"), 0);
    EXPECT_EQ(StatOf(Path("dst/file")).st_uid, 5U);
    EXPECT_EQ(StatOf(Path("dst/file")).st_mode & 0077U, 0U);
    EXPECT_EQ(Mooring("umount dst --remove").status, 0);
    EXPECT_TRUE(NoLoopOver(Path("image")));
  }
  if (!missing.empty()) GTEST_SKIP() << missing;
}

// The kernel marks an ext2, like a vfat, as dirty as soon as it is mounted writable.
TEST_F(CliMountTypesTest, ReadOnlyMountWritesNothing) {
  MakeImage("ext2");
  ASSERT_EQ(Shell("cp image before"), 0);
  for (const char* type : {"", " --fs-type ext2"}) {
    ASSERT_EQ(Mooring(std::string("mount image image dst --read-only") + type).status, 0) << type;
    EXPECT_TRUE(MountAt(Path("dst"))->SuperHas("ro")) << type;
    EXPECT_EQ(OptionsAt(Path("dst")), "ro,relatime") << type;
    EXPECT_EQ(Mooring("umount dst --remove").status, 0);
    EXPECT_TRUE(NoLoopOver(Path("image")));
    EXPECT_EQ(Shell("cmp image before"), 0) << type;
  }
}

TEST_F(CliMountTypesTest, ReadOnlyMountBesideAWritableOneIsPossible) {
  MakeImage("ext2");
  ASSERT_EQ(Mooring("mount image image writable").status, 0);
  const Ran ran = Mooring("mount image image dst --read-only --fs-type ext2");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(OptionsAt(Path("dst")), "ro,relatime");
  EXPECT_TRUE(MountAt(Path("dst"))->SuperHas("rw"));
}

TEST_F(CliMountTypesTest, CommonOptionsNeedNoName) {
  MakeImage("ext2");
  const Ran ran = Mooring("mount image image dst --option sync,async,dirsync,silent");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(MountAt(Path("dst"))->SuperHas("dirsync"));
}

TEST_F(CliMountTypesTest, AFilesystemThatIsNotOnTheDeviceIsRefused) {
  Sparse("image", kMiB);
  Overwrite(Path("image"), 0, "no filesystem that libblkid knows");
  const std::string device = Losetup("'" + Path("image") + "'");
  for (const char* type : {"proc", "sysfs", "ramfs"}) {
    const Ran ran = Mooring(fmt::format("mount device {} dst --fs-type {}", device, type));
    EXPECT_EQ(ran.status, 1) << type;
    EXPECT_THAT(ran.err, HasSubstr(fmt::format("the {} that was mounted is not on '{}'", type, device)));
    EXPECT_FALSE(Exists(Path("dst"))) << type;
  }
}

}  // namespace
}  // namespace mooring::testing
