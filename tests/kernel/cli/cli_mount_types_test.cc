// `mooring mount device` and `mount image` with filesystems beside ext4, xfs and btrfs.
#include <fmt/format.h>

#include <filesystem>

#include "tests/kernel/cli/cli_program.h"

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

// These are mounted where the kernel has them and the program that makes them is installed.
TEST_F(CliMountTypesTest, TypesThatAreOnlyRead) {
  std::filesystem::create_directory(Path("src"));
  File("src/file", "text");
  const std::string known = ReadFile("/proc/filesystems");
  for (const auto& [type, make] :
       {std::pair("squashfs", "mksquashfs src image -quiet -noappend"), std::pair("erofs", "mkfs.erofs image src")}) {
    std::filesystem::remove(Path("image"));
    if (known.find(fmt::format("\t{}\n", type)) == std::string::npos) continue;
    if (Shell(std::string(make) + " >make.out 2>&1") != 0) continue;
    const Ran ran = Mooring(fmt::format("mount image image dst --fs-type {} --nosuid --nodev", type));
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(MountAt(Path("dst"))->fs_type, type);
    EXPECT_EQ(ReadFile(Path("dst/file")), "text");
    EXPECT_EQ(TryWrite(Path("dst/file"), "x"), EROFS);
    EXPECT_EQ(Mooring("mount image image again --read-only").status, 0);
    EXPECT_EQ(OptionsAt(Path("again")), "ro,relatime");
    EXPECT_THAT(LoopsOver(Path("image")), SizeIs(1));
    EXPECT_EQ(Mooring("umount again --remove").status, 0);
    EXPECT_EQ(Mooring("umount dst --remove").status, 0);
    EXPECT_TRUE(NoLoopOver(Path("image")));
  }
}

}  // namespace
}  // namespace mooring::testing
