// The guard of the helper on the real kernel: requests of a hostile plugin are refused, also through symbolic links,
// and change nothing.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "tests/kernel/helper/helper_test.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;

class HelperGuardTest : public HelperTest {
 protected:
  void SetUp() override {
    HelperTest::SetUp();
    Ext4Image("volumes/a.img");
    Dir("outside");
    Ext4Image("outside/disk.img");
  }
  void TearDown() override {
    for (const MountLine& line : MountsBelow(dir_.path())) {
      EXPECT_TRUE(line.target.starts_with(Path("csi/"))) << line.target;
    }
    EXPECT_TRUE(NoLoopOver(Path("outside")));
    EXPECT_THAT(Entries(Path("outside")), ::testing::ElementsAre("disk.img"));
    HelperTest::TearDown();
  }
  void Stage() { ASSERT_OK(helper().Mount(MountOfImage("a.img", "staged"))); }
};

TEST_F(HelperGuardTest, TargetsOutsideAreRefused) {
  Stage();
  MountRequest mount = MountOfImage("a.img", "x");
  for (const std::string& target : {Path("outside/x"), Path("csi2"), dir_.path(), Path("volumes/x")}) {
    mount.target = target;
    for (const absl::Status& status : {helper().Mount(mount), helper().Bind(BindOf(Target("staged"), target)),
                                       helper().Unmount(UnmountOf(target, true))}) {
      EXPECT_THAT(status, Refused("--mount-root"));
    }
  }
  EXPECT_THAT(helper().Bind(BindOf(Target("staged"), Target("../outside/x"))),
              FailsWith(StatusCode::kInvalidArgument, ""));
}

// The path leads to a forbidden directory under another name.
TEST_F(HelperGuardTest, ForbiddenDirectoriesAreRefusedUnderEveryPath) {
  Stage();
  Dir("own/below/deep");
  Dir("csi/alias");
  ASSERT_EQ(::mount(Path("own").c_str(), Target("alias").c_str(), nullptr, MS_BIND, nullptr), 0);
  Dir("csi/volumes");
  ASSERT_EQ(::mount(Path("volumes").c_str(), Target("volumes").c_str(), nullptr, MS_BIND, nullptr), 0);
  constexpr char kReason[] = "possibly under another path";
  for (const char* target : {"alias", "alias/x", "alias/below", "alias/below/deep", "volumes/x", "volumes"}) {
    EXPECT_THAT(helper().Bind(BindOf(Target("staged"), Target(target))), Refused(kReason));
    EXPECT_THAT(helper().Mount(MountOfImage("a.img", target)), Refused(kReason));
    EXPECT_THAT(helper().Unmount(UnmountOf(Target(target), true)), Refused(kReason));
  }
  EXPECT_FALSE(Exists(Path("own/x")));
  EXPECT_OK(helper().Bind(BindOf(Target("staged"), Target("beside"))));
}

TEST_F(HelperGuardTest, SymbolicLinksAreNotFollowed) {
  Stage();
  std::filesystem::create_directory_symlink(Path("outside"), Target("link"));
  std::filesystem::create_symlink(Path("outside/disk.img"), Image("link.img"));
  std::filesystem::create_directory_symlink(Path("outside"), Image("dir"));
  constexpr char kLink[] = "symbolic link";
  EXPECT_THAT(helper().Bind(BindOf(Target("staged"), Target("link/x"))), Refused(kLink));
  EXPECT_THAT(helper().Bind(BindOf(Target("staged"), Target("link"))), Refused());
  EXPECT_THAT(helper().Unmount(UnmountOf(Target("link/x"), true)), Refused(kLink));
  for (const char* image : {"link.img", "dir/disk.img"}) {
    EXPECT_THAT(helper().Mount(MountOfImage(image, "x")), Refused(kLink)) << image;
    EXPECT_THAT(helper().AttachLoop({Image(image), "mooring:x", false}), Refused(kLink));
    for (const auto& call : {&Mounter::Format, &Mounter::Check, &Mounter::Grow}) {
      EXPECT_THAT((helper().*call)(Image(image), "ext4"), Refused());
    }
    EXPECT_FALSE(helper().Probe(Image(image)).ok()) << image;
  }
}

// A device node among the volumes would give access to every disk.
TEST_F(HelperGuardTest, ADeviceNodeAmongTheVolumesIsRefused) {
  const std::string foreign = Losetup(Path("outside/disk.img"));
  ASSERT_EQ(::mknod(Image("node").c_str(), S_IFBLK | 0600, StatOf(foreign).st_rdev), 0);
  EXPECT_FALSE(helper().Mount(MountOfImage("node", "x")).ok());
  EXPECT_FALSE(helper().AttachLoop({Image("node"), "mooring:x", false}).ok());
  EXPECT_FALSE(helper().Probe(Image("node")).ok());
  EXPECT_FALSE(helper().Format(Image("node"), "ext4").ok());
  EXPECT_FALSE(helper().Check(Image("node"), "ext4").ok());
  EXPECT_EQ(Tool("losetup -d " + foreign), 0);
}

// A device is a volume only as long as a link leads to it.
TEST_F(HelperGuardTest, OnlyDevicesBehindALinkAreVolumes) {
  const std::string device = Losetup(Path("outside/disk.img"));
  Dir("links");
  const auto expect = [&](bool allowed, const char* when) {
    MountRequest mount = MountOfImage("", "x");
    mount.source = device;
    EXPECT_EQ(helper().Mount(mount).ok(), allowed) << when;
    if (allowed) {
      EXPECT_OK(helper().Bind(BindOf(Target("x"), Target("y"))));
      EXPECT_OK(helper().Unmount(UnmountOf(Target("y"), true)));
      EXPECT_OK(helper().Unmount(UnmountOf(Target("x"), true)));
    }
    EXPECT_EQ(helper().Probe(device).ok(), allowed) << when;
    EXPECT_EQ(helper().Check(device, "ext4").ok(), allowed) << when;
    BindRequest bind = BindOf(device, Target("node"));
    bind.target_kind = TargetKind::kFile;
    EXPECT_EQ(helper().Bind(bind).ok(), allowed) << when;
    EXPECT_OK(helper().Unmount(UnmountOf(Target("node"), true)));
    const auto loop = helper().AttachLoop({device, "mooring-ro:x", true});
    EXPECT_EQ(loop.ok(), allowed) << when;
    if (loop.ok()) {
      EXPECT_OK(helper().DetachLoop(*loop));
    }
    EXPECT_THAT(helper().Format(device, "ext4"), Refused()) << when;
  };
  expect(false, "no link");
  ASSERT_EQ(::symlink(device.c_str(), Path("links/other").c_str()), 0);
  expect(false, "a link that does not match");
  ASSERT_EQ(::symlink(device.c_str(), Path("links/disk-a").c_str()), 0);
  expect(true, "a link that matches");
  const std::string other = Losetup(Path("outside/disk.img"));
  EXPECT_FALSE(helper().Probe(other).ok());
  EXPECT_FALSE(helper().Bind(BindOf(other, Target("other"))).ok());
  EXPECT_EQ(Tool("losetup -d " + other), 0);
  ASSERT_EQ(::unlink(Path("links/disk-a").c_str()), 0);
  expect(false, "a link no more");
  EXPECT_EQ(Tool("losetup -d " + device), 0);
}

TEST_F(HelperGuardTest, SourcesThatAreNoVolumesAreRefused) {
  Stage();
  Dir("csi/plain");
  Dir("csi/staged/below");
  const std::string foreign = Losetup(Path("outside/disk.img"));
  for (const std::string& source : {std::string("/etc"), std::string("/"), Path("outside"), Target("plain"),
                                    Target("staged/below"), foreign, std::string("/dev/null"), Path("volumes/a.img")}) {
    EXPECT_FALSE(helper().Bind(BindOf(source, Target("x"))).ok()) << source;
    EXPECT_FALSE(Exists(Target("x"))) << source;
  }
  EXPECT_EQ(Tool("losetup -d " + foreign), 0);
}

TEST_F(HelperGuardTest, ForeignFilesystemsAreNotGrown) {
  ASSERT_EQ(::mount("tmpfs", Dir("csi/foreign").c_str(), "tmpfs", 0, "size=64k"), 0);
  EXPECT_THAT(helper().Grow(Target("foreign"), "ext4"), Refused("neither the loop"));
  ASSERT_EQ(::umount(Target("foreign").c_str()), 0);
}

// The device number of a btrfs is not that of its device, so the guard asks the kernel.
TEST_F(HelperGuardTest, ABtrfsIsKnownByItsDevice) {
  BtrfsImage("volumes/b.img");
  const std::string foreign = Losetup(BtrfsImage("foreign.img"));
  MountRequest request = MountOfImage("b.img", "btrfs");
  request.fs_type = "btrfs";
  ASSERT_OK(helper().Mount(request));
  EXPECT_OK(helper().Bind(BindOf(Target("btrfs"), Target("x"))));
  EXPECT_OK(helper().Grow(Target("x"), "btrfs"));
  EXPECT_THAT(helper().Grow(Target("x"), "ext4"), FailsWith(StatusCode::kInternal, ""));
  Dir("csi/btrfs/below");
  EXPECT_THAT(helper().Bind(BindOf(Target("btrfs/below"), Target("y"))), Refused("neither the loop device"));
  ASSERT_EQ(::mount(foreign.c_str(), Dir("csi/foreign").c_str(), "btrfs", 0, nullptr), 0);
  EXPECT_THAT(helper().Bind(BindOf(Target("foreign"), Target("y"))), Refused("neither the loop device"));
  EXPECT_THAT(helper().Grow(Target("foreign"), "btrfs"), Refused("neither the loop"));
}

TEST_F(HelperGuardTest, LoopDevicesOfOthersAreLeftAlone) {
  const std::string foreign = Losetup(Path("outside/disk.img"));
  LoopInfo info = *helper().Find(foreign)->loop;
  EXPECT_THAT(helper().DetachLoop(info), Refused("the label"));
  EXPECT_THAT(helper().ResizeLoop(info), Refused("the label"));
  info.device = "/dev/null";  // and the number as it was
  EXPECT_OK(helper().DetachLoop(info));
  EXPECT_EQ(LoopsOver(Path("outside")).size(), 1U);
  EXPECT_EQ(Tool("losetup -d " + foreign), 0);
}

TEST_F(HelperGuardTest, OtherFilesystemsAndOptionsAreRefused) {
  for (const char* fs_type : {"proc", "sysfs", "devtmpfs", "overlay"}) {
    MountRequest request = MountOfImage("a.img", "x");
    request.fs_type = fs_type;
    EXPECT_THAT(helper().Mount(request), Refused("handles ext4, xfs and btrfs only"));
  }
  MountRequest request = MountOfImage("a.img", "x");
  request.options = {{"journal_path", "/dev/sda"}};
  EXPECT_THAT(helper().Mount(request), FailsWith(StatusCode::kInvalidArgument, "not allowed"));
  EXPECT_TRUE(NoLoopOver(Path("volumes")));
}

TEST_F(HelperGuardTest, ATmpfsNeedsOurLabelAndASizeUpToTheLimit) {
  MountRequest memory;
  memory.source = "mooring:vol-1";
  memory.fs_type = "tmpfs";
  memory.target = Target("m");
  memory.options = {{"size", std::to_string(4 * kMiB)}};
  const auto refused = [&](const MountRequest& request) {
    EXPECT_FALSE(helper().Mount(request).ok());
    EXPECT_FALSE(Exists(Target("m")));
  };
  MountRequest request = memory;
  for (const char* source : {"tmpfs", "", "moor", "/etc"}) {
    request.source = source;
    refused(request);
  }
  request.source = memory.source;
  for (const char* size : {"4194305", "0", "", "99999999999999999999"}) {
    request.options = {{"size", size}};
    refused(request);
  }
  request.options.clear();
  refused(request);
  request.options = {{"size", "4096"}, {"mpol", "bind:0"}};
  refused(request);
  ASSERT_OK(helper().Mount(memory));
  EXPECT_OK(helper().Bind(BindOf(Target("m"), Target("bound"))));
  EXPECT_FALSE(helper().Change({.target = Target("m"), .options = {{"size", "4194305"}}}).ok());
  EXPECT_OK(helper().Change({.target = Target("bound"), .options = {{"size", "8192"}}}));
}

TEST_F(HelperGuardTest, ATmpfsWithAnotherLabelIsRefused) {
  Dir("csi/theirs");
  ASSERT_EQ(::mount("tmpfs", Target("theirs").c_str(), "tmpfs", 0, "size=1m"), 0);
  EXPECT_FALSE(helper().Bind(BindOf(Target("theirs"), Target("x"))).ok());
  EXPECT_FALSE(helper().Change({.target = Target("theirs"), .flags = ReadOnly()}).ok());
  EXPECT_FALSE(helper().Change({.target = Target("theirs"), .options = {{"size", "4096"}}}).ok());
  EXPECT_EQ(OptionsAt(Target("theirs")), "rw,relatime");
  EXPECT_FALSE(Exists(Target("x")));
}

TEST_F(HelperGuardTest, OnlySubdirectoriesOfAVolumeDirectoryAreVolumes) {
  Dir("dirs/vol-1/inside");
  Dir("outside/vol-1");
  File("dirs/file", "x");
  std::filesystem::create_directory_symlink(Path("outside"), Path("dirs/link"));
  for (const std::string& source : {Path("dirs"), Path("dirs/vol-1/inside"), Path("dirs/link"), Path("dirs/link/vol-1"),
                                    Path("dirs/file"), Path("outside/vol-1"), Path("outside"), Path("dirs/.")}) {
    EXPECT_FALSE(helper().Bind(BindOf(source, Target("x"))).ok()) << source;
    EXPECT_FALSE(Exists(Target("x"))) << source;
  }
  ASSERT_OK(helper().Bind(BindOf(Path("dirs/vol-1"), Target("staged"))));
  EXPECT_OK(helper().Bind(BindOf(Target("staged"), Target("bound"))));
  EXPECT_FALSE(helper().Bind(BindOf(Target("staged/inside"), Target("x"))).ok());
  EXPECT_OK(helper().Change({.target = Target("bound"), .flags = ReadOnly()}));
  // It lies on a filesystem of the host, so its options and size must not change.
  EXPECT_FALSE(helper().Change({.target = Target("staged"), .options = {{"commit", "30"}}}).ok());
  EXPECT_FALSE(helper().Grow(Target("staged"), "ext4").ok());
  ASSERT_EQ(::rmdir(Path("outside/vol-1").c_str()), 0);
}

// Mounts a directory elsewhere that has the name of a volume.
TEST_F(HelperGuardTest, ADirectoryWithTheNameOfAVolumeIsRefused) {
  Dir("dirs/vol-1");
  Dir("outside/vol-1");
  Dir("csi/theirs");
  ASSERT_EQ(::mount(Path("outside/vol-1").c_str(), Target("theirs").c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_FALSE(helper().Bind(BindOf(Target("theirs"), Target("x"))).ok());
  EXPECT_FALSE(Exists(Target("x")));
  ASSERT_EQ(::umount(Target("theirs").c_str()), 0);
  ASSERT_EQ(::rmdir(Path("outside/vol-1").c_str()), 0);
}

TEST_F(HelperGuardTest, OnlyVolumesAreRemoved) {
  Dir("dirs/vol-1/inside");
  std::filesystem::create_directory_symlink(Path("outside"), Path("dirs/link"));
  for (const std::string& path : {Path("outside"), Path("dirs"), Path("dirs/vol-1/inside"), Path("volumes"),
                                  Path("own"), Path("dirs/link"), Path("dirs/../outside"), Path("csi")}) {
    EXPECT_FALSE(helper().RemoveTree(path).ok()) << path;
  }
  EXPECT_TRUE(Exists(Path("dirs/vol-1/inside")));
  EXPECT_TRUE(Exists(Image("a.img")));
  EXPECT_OK(helper().RemoveTree(Path("dirs/vol-1")));
  EXPECT_FALSE(Exists(Path("dirs/vol-1")));
}

TEST_F(HelperGuardTest, TargetsInAVolumeDirectoryAreRefused) {
  Dir("dirs/vol-1");
  Dir("csi/alias");
  ASSERT_EQ(::mount(Path("dirs").c_str(), Target("alias").c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_FALSE(helper().Bind(BindOf(Path("dirs/vol-1"), Path("dirs/x"))).ok());
  EXPECT_THAT(helper().Bind(BindOf(Path("dirs/vol-1"), Target("alias/x"))), Refused("possibly under another path"));
}

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
  ASSERT_EQ(Tool("losetup -d " + loop->device), 0);
  ASSERT_EQ(::rmdir(Path("dirs/d").c_str()), 0);
  EXPECT_OK(helper().Unmount(UnmountOf(Target("block"), true)));
  EXPECT_OK(helper().Unmount(UnmountOf(Target("directory"), true)));
  EXPECT_THAT(Entries(Path("csi")), ::testing::IsEmpty());
}

// The number of the loop device leads to a foreign file. The target must still become free.
TEST_F(HelperGuardTest, AMountWhoseLoopDeviceWasReusedIsUnmounted) {
  const auto loop = helper().AttachLoop({Image("a.img"), "mooring:a", false});
  ASSERT_OK(loop);
  ASSERT_OK(helper().Bind(NodeBindOf(loop->device, Target("block"))));
  ASSERT_EQ(Tool("losetup -d " + loop->device), 0);
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

TEST_F(HelperGuardTest, EachReasonIsLoggedOnce) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(helper().Unmount(UnmountOf(Path("outside/" + std::to_string(i)))).ok());
    EXPECT_FALSE(helper().Probe(Path("outside/" + std::to_string(i))).ok());
  }
  const std::string log = HelperLog();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
  EXPECT_THAT(log, ::testing::HasSubstr("refused a target outside the mount roots"));
  EXPECT_THAT(log, ::testing::HasSubstr("refused a source that is no volume"));
}

}  // namespace
}  // namespace mooring::testing
