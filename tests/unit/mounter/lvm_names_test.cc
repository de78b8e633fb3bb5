// Names of LVM: which may become an argument of lvm, and which device they lead to.
#include "mounter/path/lvm_names.h"

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

TEST(LvmNamesTest, PoolIsAGroupOrAThinPoolOfIt) {
  const auto group = ParseLvmPool("vg-0+a_b.c");
  ASSERT_OK(group);
  EXPECT_EQ(group->group, "vg-0+a_b.c");
  EXPECT_FALSE(group->is_thin());
  const auto thin = ParseLvmPool("vg0/pool-1");
  ASSERT_OK(thin);
  EXPECT_EQ(thin->group, "vg0");
  EXPECT_EQ(thin->thin_pool, "pool-1");
}

TEST(LvmNamesTest, PoolOfAnotherFormIsRefused) {
  for (const std::string pool : {"",
                                 "/",
                                 "vg/",
                                 "/pool",
                                 "vg/pool/x",
                                 ".",
                                 "..",
                                 "vg/..",
                                 "-vg",
                                 "vg/-pool",
                                 "vg pool",
                                 "vg\n",
                                 "@tag",
                                 "vg=1",
                                 "vg\"",
                                 "/dev/vg",
                                 "vg/snapshot",
                                 "vg/snapshot1",
                                 "vg/pvmove0",
                                 "vg/pool_tdata",
                                 "vg/x_mimage_0",
                                 "vg/\xc3\xa4"}) {
    EXPECT_THAT(ParseLvmPool(pool), FailsWith(StatusCode::kInvalidArgument, "LVM pool")) << pool;
  }
  EXPECT_THAT(ParseLvmPool(std::string("vg\0x", 4)), FailsWith(StatusCode::kInvalidArgument, "LVM pool"));
}

TEST(LvmNamesTest, PoolWhoseDevicesHaveNoRoomForTheirNamesIsRefused) {
  EXPECT_OK(ParseLvmPool(std::string(77, 'g')));
  for (const std::string& pool :
       {std::string(78, 'g'), std::string(39, '-') + "g", "g/" + std::string(125, 'p'), "g/p" + std::string(70, '-')}) {
    EXPECT_THAT(ParseLvmPool(pool), FailsWith(StatusCode::kInvalidArgument, "")) << pool;
  }
}

TEST(LvmNamesTest, OnlyNamesOfMooringAreVolumes) {
  for (const char* name : {"vol-ab12", "snap-0", "vol-a-b", "vol-AB"}) EXPECT_TRUE(IsLvmVolumeName(name)) << name;
  for (const char* name : {"", "vol", "vol-", "snap-", "root", "xvol-1", "-vol-1", "vol-a_tdata", "vol-a.b", "vol-a/b",
                           "vol-a b", "vol-a\n", "vol-\xc3\xa4"}) {
    EXPECT_FALSE(IsLvmVolumeName(name)) << name;
  }
  EXPECT_TRUE(IsLvmVolumeName("vol-" + std::string(43, 'a')));
  EXPECT_FALSE(IsLvmVolumeName("vol-" + std::string(44, 'a')));
}

TEST(LvmNamesTest, DashesAreDoubledInTheNameOfTheDevice) {
  EXPECT_EQ(LvmDeviceName("vg", "vol-ab12"), "vg-vol--ab12");
  EXPECT_EQ(LvmDeviceName("my-vg", "snap-a-b"), "my--vg-snap--a--b");
  EXPECT_EQ(LvmDevicePath({"vg", "pool"}, "vol-1"), "/dev/mapper/vg-vol--1");
}

// A group "a" with "b-c" and a group "a-b" with "c" have different devices.
TEST(LvmNamesTest, DifferentNamesHaveDifferentDevices) {
  EXPECT_NE(LvmDeviceName("a", "b-c"), LvmDeviceName("a-b", "c"));
}

}  // namespace
}  // namespace mooring::testing
