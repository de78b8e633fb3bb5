// Filesystems beside ext4, xfs and btrfs, asked for by a hostile plugin.
#include "tests/kernel/helper/helper_test.h"

namespace mooring::testing {
namespace {

// The policy of this helper has ext2. Its driver is the one of ext3, which it has not.
TEST_F(HelperGuardTest, OtherFilesystemsAreMountedIfThePolicyHasThemAndFromDevicesAlone) {
  const auto make = [](const char* type, const std::string& path) {
    return Tool(fmt::format("mke2fs -q -F -t {} '{}'", type, path));
  };
  ASSERT_EQ(make("ext2", Image("a.img")), 0);
  MountRequest request = MountOfImage("a.img", "x");
  request.fs_type = "ext2";
  EXPECT_THAT(helper().Mount(request), Refused("from a device of the host alone, and without options: not from"));
  const std::string device = Losetup(Path("outside/disk.img"));
  Dir("links");
  ASSERT_EQ(::symlink(device.c_str(), Path("links/disk-a").c_str()), 0);
  request.source = device;
  ASSERT_EQ(make("ext3", device), 0);
  request.fs_type = "ext3";
  EXPECT_THAT(helper().Mount(request), Refused("the mount helper handles ext4, xfs, btrfs and ext2 only, not 'ext3'"));
  ASSERT_EQ(make("ext2", device), 0);
  request.fs_type = "ext2";
  request.options = {{"resuid", "5"}};
  EXPECT_THAT(helper().Mount(request), Refused("without options"));
  request.options.clear();
  request.by_hand = request.may_run_program = true;  // neither arrives
  request.flags.nosuid = true;
  ASSERT_OK(helper().Mount(request));
  EXPECT_EQ(OptionsAt(Target("x")), "rw,nosuid,relatime");
  EXPECT_THAT(helper().Change({.target = Target("x"), .options = {{"resuid", "5"}}}),
              FailsWith(StatusCode::kInvalidArgument, "not allowed for ext2"));
  EXPECT_THAT(helper().Grow(Target("x"), "ext2"), Refused("the mount helper handles"));
  EXPECT_THAT(helper().Check(device, "ext2"), Refused("the mount helper handles"));
  EXPECT_THAT(helper().Format({device, "ext2"}), Refused("the mount helper handles"));
  EXPECT_OK(helper().Unmount(UnmountOf(Target("x"), true)));
  EXPECT_EQ(Tool("losetup -d " + device), 0);
}

// A plugin writes every byte of an image. Its loop device is no device of the host, whatever link leads to it.
TEST_F(HelperGuardTest, ALoopDeviceOfAVolumeHoldsNoOtherFilesystem) {
  ASSERT_EQ(Tool(fmt::format("mke2fs -q -F -t ext2 '{}'", Image("a.img"))), 0);
  const auto loop = helper().AttachLoop({Image("a.img"), "mooring-kernel-test:a", false});
  ASSERT_OK(loop);
  Dir("links");
  ASSERT_EQ(::symlink(loop->device.c_str(), Path("links/disk-a").c_str()), 0);
  MountRequest request = MountOfImage("a.img", "x");
  request.source = loop->device;
  request.fs_type = "ext2";
  EXPECT_THAT(helper().Mount(request), Refused("from a device of the host alone"));
  EXPECT_OK(helper().DetachLoop(*loop));
}

// The policy of this helper has f2fs, too, which its plugin should never have asked for.
TEST_F(HelperGuardTest, AFilesystemThatNamesOtherDevicesIsRefusedWhateverThePolicyHas) {
  const std::string device = Losetup(Path("outside/disk.img"));
  Dir("links");
  ASSERT_EQ(::symlink(device.c_str(), Path("links/disk-a").c_str()), 0);
  MountRequest request = MountOfImage("a.img", "x");
  request.source = device;
  for (const char* type : {"f2fs", "proc"}) {
    request.fs_type = type;
    EXPECT_THAT(helper().Mount(request), Refused("the mount helper handles ext4, xfs, btrfs"));
  }
  EXPECT_EQ(Tool("losetup -d " + device), 0);
}

}  // namespace
}  // namespace mooring::testing
