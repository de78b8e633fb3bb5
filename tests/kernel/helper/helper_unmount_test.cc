// The helper unmounts and removes mounts of volumes, also of broken and lost ones, and the targets that it made.
#include <linux/btrfs_tree.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

#include <array>

#include "base/file/path.h"
#include "mounter/guard/source_guard.h"
#include "tests/kernel/helper/helper_test.h"

namespace mooring::testing {
namespace {

TEST_F(HelperGuardTest, MountsOfOthersAreNotUnmounted) {
  const std::string foreign = Losetup(Path("outside/disk.img"));
  for (const char* target : {"memory", "disk", "bound"}) Dir(std::string("csi/") + target);
  ASSERT_EQ(::mount("other", Target("memory").c_str(), "tmpfs", 0, nullptr), 0);
  ASSERT_EQ(::mount(foreign.c_str(), Target("disk").c_str(), "ext4", 0, nullptr), 0);
  ASSERT_EQ(::mount(Path("outside").c_str(), Target("bound").c_str(), nullptr, MS_BIND, nullptr), 0);
  File("csi/node");
  ASSERT_EQ(::mount(foreign.c_str(), Target("node").c_str(), nullptr, MS_BIND, nullptr), 0);
  for (const char* target : {"memory", "disk", "bound", "node"}) {
    for (const bool remove : {false, true}) {
      EXPECT_THAT(helper().Unmount(UnmountOf(Target(target), remove)), Refused("neither belongs to a volume"));
    }
    const ExpectedMount there = {.device = mounter_.Find(Target(target))->device};  // as a hostile plugin may claim
    EXPECT_THAT(helper().UnmountIf({.unmount = UnmountOf(Target(target)), .target = there}).status(),
                Refused("neither belongs to a volume"));
    const auto bound = helper().BindIf({.bind = BindOf(Target(target), Target("x")), .source = there});
    EXPECT_FALSE(bound.value_or(false)) << target;
    EXPECT_FALSE(Exists(Target("x")));
    EXPECT_TRUE(mounter_.Find(Target(target))->mount.has_value()) << target;
    EXPECT_EQ(::umount(Target(target).c_str()), 0);
  }
  EXPECT_EQ(Tool("losetup -d " + foreign), 0);
}

// With bidirectional propagation such a mount reaches the host, and prevents the unmount of the volume.
TEST_F(HelperGuardTest, MountsOfATaskInsideAVolumeAreUnmounted) {
  Stage();
  Dir("csi/staged/a");
  ASSERT_EQ(::mount("task", Target("staged/a").c_str(), "tmpfs", 0, nullptr), 0);
  Dir("csi/staged/a/b");
  ASSERT_EQ(::mount("task", Target("staged/a/b").c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_OK(helper().Unmount(UnmountOf(Target("staged/a/b"))));
  EXPECT_OK(helper().Unmount(UnmountOf(Target("staged/a"))));
  EXPECT_OK(helper().Unmount(UnmountOf(Target("staged"), true)));
}

// Somebody detached the loop device of a volume that is bound as a block device, or removed a directory volume.
TEST_F(HelperGuardTest, AMountWhoseVolumeIsGoneIsUnmounted) {
  const auto loop = helper().AttachLoop({Image("a.img"), "mooring:a", false});
  ASSERT_OK(loop);
  ASSERT_OK(helper().Bind(NodeBindOf(loop->device, Target("block"))));
  Dir("dirs/d");
  ASSERT_OK(helper().Bind(BindOf(Path("dirs/d"), Target("directory"))));
  testing::DetachLoop(LoopsOver(Image("a.img")).at(0));
  ASSERT_TRUE(NoLoopOver(Image("a.img")));
  ASSERT_EQ(::rmdir(Path("dirs/d").c_str()), 0);
  EXPECT_OK(helper().Unmount(UnmountOf(Target("block"), true)));
  EXPECT_OK(helper().Unmount(UnmountOf(Target("directory"), true)));
  EXPECT_THAT(Entries(Path("csi")), IsEmpty());
}

// The number of the loop device leads to a foreign file. The target must still become free.
TEST_F(HelperGuardTest, AMountWhoseLoopDeviceWasReusedIsUnmounted) {
  const auto loop = helper().AttachLoop({Image("a.img"), "mooring:a", false});
  ASSERT_OK(loop);
  ASSERT_OK(helper().Bind(NodeBindOf(loop->device, Target("block"))));
  testing::DetachLoop(LoopsOver(Image("a.img")).at(0));
  ASSERT_TRUE(NoLoopOver(Image("a.img")));
  ASSERT_EQ(Tool(fmt::format("losetup {} {}", loop->device, Path("outside/disk.img"))), 0);
  EXPECT_OK(helper().Unmount(UnmountOf(Target("block"), true)));
  EXPECT_FALSE(Exists(Target("block")));
  EXPECT_EQ(Tool("losetup -d " + loop->device), 0);
}

// The test mounts it itself, so the target is not marked.
TEST_F(HelperGuardTest, ADirectoryVolumeOfAPoolThatWasShutDownIsUnmounted) {
  ASSERT_EQ(Tool(fmt::format("mount -o loop {} {}", XfsImage("pool.img"), Path("dirs"))), 0);
  Dir("dirs/d");
  Dir("dirs/other");
  Dir("dirs/other/deep");
  for (const char* name : {"d", "other/deep"}) {
    const std::string target = Dir(std::string("csi/") + std::string(NameOf(name)));
    ASSERT_EQ(::mount(Path(std::string("dirs/") + name).c_str(), target.c_str(), nullptr, MS_BIND, nullptr), 0);
  }
  std::uint32_t without_log = 2;
  {
    const UniqueFd pool(::open(Path("dirs").c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::ioctl(pool.get(), _IOR('X', 125, std::uint32_t), &without_log), 0) << "XFS_IOC_GOINGDOWN";
  }
  EXPECT_OK(helper().Unmount(UnmountOf(Target("d"))));
  EXPECT_FALSE(helper().Unmount(UnmountOf(Target("deep"))).ok()) << "it does not lie directly in the pool";
  EXPECT_EQ(::umount(Target("deep").c_str()), 0);
  EXPECT_EQ(::umount(Path("dirs").c_str()), 0);
}

TEST_F(HelperGuardTest, TargetsOfOthersAreNotRemoved) {
  Dir("csi/empty");
  File("csi/file");
  for (const char* target : {"empty", "file"}) {
    EXPECT_OK(helper().Unmount(UnmountOf(Target(target), true)));
    EXPECT_TRUE(Exists(Target(target))) << target;
  }
}

// A reboot ends the mounts and leaves the targets.
TEST_F(HelperGuardTest, TargetsOfMountsThatAreGoneAreRemoved) {
  Stage();
  Dir("csi/made-by-the-orchestrator");
  for (const char* target : {"made", "made-by-the-orchestrator"}) {
    ASSERT_OK(helper().Bind(BindOf(Target("staged"), Target(target))));
    ASSERT_EQ(::umount(Target(target).c_str()), 0);
    EXPECT_TRUE(Exists(Target(target)));
    EXPECT_OK(helper().Unmount(UnmountOf(Target(target), true)));
    EXPECT_FALSE(Exists(Target(target))) << target;
  }
}

// A directory with the inode of a subvolume. On the filesystem of a dead server an open would hang.
TEST_F(HelperGuardTest, NothingIsOpenedOnAnotherFilesystemThanBtrfs) {
  ASSERT_EQ(::mount("none", Dir("tmpfs").c_str(), "tmpfs", 0, "size=1m"), 0);
  std::string place;
  for (int i = 0; i < 300 && StatOf(place).st_ino != BTRFS_FIRST_FREE_OBJECTID; ++i) {
    place = Dir(fmt::format("tmpfs/{}", i));
  }
  ASSERT_EQ(StatOf(place).st_ino, static_cast<ino_t>(BTRFS_FIRST_FREE_OBJECTID));
  const UniqueFd events(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(::inotify_add_watch(events.get(), place.c_str(), IN_OPEN), 0);
  const SourceGuard guard({}, "mooring", {Dir("pool")});
  EXPECT_THAT(guard.CheckBindSource(UniqueFd(::open(place.c_str(), O_PATH | O_CLOEXEC)), place), Refused());
  std::array<char, 512> event = {};
  EXPECT_EQ(::read(events.get(), event.data(), event.size()), -1) << "it was opened";
  EXPECT_EQ(::umount(Path("tmpfs").c_str()), 0);
}

}  // namespace
}  // namespace mooring::testing
