// Which driver mounts a filesystem beside ext4, xfs and btrfs (--fs-type).
#include "plugin/model/fs_types.h"

#include "mounter/other_filesystems.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

class FsTypesTest : public ::testing::Test {
 protected:
  void TearDown() override { AllowOtherFsTypes({}); }
};

TEST_F(FsTypesTest, TheDriverThatIsAskedForMounts) {
  AllowOtherFsTypes({"msdos", "vfat", "ntfs3"});
  EXPECT_EQ(OtherFsTypeFor("vfat", "vfat", ""), "vfat");
  EXPECT_EQ(OtherFsTypeFor("vfat", "msdos", "vfat"), "msdos");
  EXPECT_EQ(OtherFsTypeFor("vfat", "ntfs3", "vfat"), "") << "it is no ntfs";
  EXPECT_EQ(OtherFsTypeFor("vfat", "exfat", ""), "") << "not allowed";
}

TEST_F(FsTypesTest, ElseItIsTheVolumesOwnOrTheOneOfTheSameName) {
  AllowOtherFsTypes({"msdos", "vfat", "ntfs3"});
  EXPECT_EQ(OtherFsTypeFor("vfat", "", "msdos"), "msdos");
  EXPECT_EQ(OtherFsTypeFor("vfat", "", "ext4"), "vfat");
  EXPECT_EQ(OtherFsTypeFor("ntfs", "", "ext4"), "ntfs3");
  EXPECT_EQ(OtherFsTypeFor("ext3", "", "ext4"), "");
}

TEST_F(FsTypesTest, APoolHasNoFilesystemThatMayNameAnotherDevice) {
  for (const char* type : {"f2fs", "jfs", "reiserfs", "erofs", "bcachefs", "auto", "proc", "9p", "cifs", "overlay"}) {
    EXPECT_FALSE(IsOnOneDevice(type)) << type;
    EXPECT_THAT(CheckOtherFsType(type), FailsWith(StatusCode::kInvalidArgument, "ext2, ext3, exfat")) << type;
  }
  EXPECT_OK(CheckOtherFsType("squashfs"));
}

}  // namespace
}  // namespace mooring::testing
