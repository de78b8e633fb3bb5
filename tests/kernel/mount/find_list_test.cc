// Find and List against mountinfo, sysfs and stat(2).
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "mounter/mount/scratch.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

using Kind = PathInfo::Kind;

class FindTest : public KernelTest {
 protected:
  PathInfo Find(const std::string& path) {
    const auto info = mounter_.Find(path);
    EXPECT_OK(info);
    return info.ok() ? *info : PathInfo();
  }
  // Every field of the answer against the kernel's text.
  static void ExpectLikeMountinfo(const MountInfo& info, const MountLine& line) {
    EXPECT_EQ(info.target, line.target);
    EXPECT_EQ(info.root, line.root);
    EXPECT_EQ(info.fs_type, line.fs_type);
    EXPECT_EQ(info.flags, FlagsOfMountInfo(fmt::format("{}", fmt::join(line.options, ","))));
    EXPECT_EQ(info.superblock_read_only, line.SuperHas("ro"));
  }
  static void ExpectListed(const ListedMount& info, const MountLine& line) {
    ExpectLikeMountinfo(info, line);
    EXPECT_EQ(info.peer_group, Group(line, "shared:"));
    EXPECT_EQ(info.master, Group(line, "master:"));
    EXPECT_EQ(info.shared(), Group(line, "shared:") != 0);
    EXPECT_EQ(info.ids_mapped, line.Has("idmapped"));
  }
  static std::uint64_t Group(const MountLine& line, const std::string& key) {
    for (const std::string& field : line.propagation) {
      if (field.starts_with(key)) return std::stoull(field.substr(key.size()));
    }
    return 0;
  }
};

TEST_F(FindTest, MissingPathOrParent) {
  EXPECT_EQ(Find(Path("missing")).kind, Kind::kMissing);
  EXPECT_EQ(Find(Path("no/such/parent")).kind, Kind::kMissing);
}

TEST_F(FindTest, EachKindOfPath) {
  ASSERT_EQ(::symlink(Dir("directory").c_str(), Path("link").c_str()), 0);
  ASSERT_EQ(::mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(Find(Path("directory")).kind, Kind::kDirectory);
  EXPECT_EQ(Find(File("file")).kind, Kind::kRegular);
  EXPECT_EQ(Find(Losetup(Sparse("image", kMiB))).kind, Kind::kBlockDevice);
  EXPECT_EQ(Find(Path("link")).kind, Kind::kSymlink);
  EXPECT_EQ(Find(Path("fifo")).kind, Kind::kOther);
  EXPECT_EQ(Find("/dev/null").kind, Kind::kOther);
  EXPECT_FALSE(Find(Path("directory")).mount);
}

TEST_F(FindTest, EmptyIsADirectoryWithoutEntriesOrAFileWithoutBytes) {
  EXPECT_TRUE(Find(Dir("empty")).empty);
  Dir("full/.hidden");
  EXPECT_FALSE(Find(Path("full")).empty);
  EXPECT_TRUE(Find(File("empty-file")).empty);
  EXPECT_FALSE(Find(File("full-file", "x")).empty);
}

// The device number of a btrfs is not that of a device.
TEST_F(FindTest, BtrfsIsFoundByTheDeviceItIsOn) {
  const std::string image = BtrfsImage("image");
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"), "btrfs")));
  ASSERT_OK(mounter_.Bind(BindOf(Path("target"), Path("bound"), ReadOnly())));
  const LoopLine loop = LoopsOver(image).at(0);
  const dev_t number = StatOf(loop.device).st_rdev;
  for (const char* name : {"target", "bound"}) {
    const PathInfo info = Find(Path(name));
    EXPECT_EQ(info.device, number);
    ASSERT_TRUE(info.mount && info.loop);
    EXPECT_EQ(info.mount->device, number);
    EXPECT_EQ(info.mount->fs_type, "btrfs");
    EXPECT_EQ(info.loop->device, loop.device);
    EXPECT_TRUE(info.loop->mounted);
  }
  const auto listed = mounter_.List(dir_.path());
  ASSERT_OK(listed);
  ASSERT_EQ(listed->size(), 2U);
  for (const MountInfo& info : *listed) EXPECT_EQ(info.device, number) << info.target;
}

TEST_F(FindTest, LoopDeviceOfAMountedBtrfsIsMounted) {
  const std::string image = BtrfsImage("image"), other = Losetup(BtrfsImage("other"));
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"), "btrfs")));
  EXPECT_TRUE(mounter_.FindLoops(image)->at(0).mounted);
  EXPECT_FALSE(mounter_.FindLoops(Path("other"))->at(0).mounted);
  EXPECT_TRUE(Find(LoopsOver(image).at(0).device).loop->mounted);
  EXPECT_FALSE(Find(other).loop->mounted);
}

TEST_F(FindTest, SymlinkOnTheWayIsRefused) {
  Dir("real/directory");
  ASSERT_EQ(::symlink(Path("real").c_str(), Path("link").c_str()), 0);
  EXPECT_THAT(mounter_.Find(Path("link/directory")), Refused(Path("link")));
}

TEST_F(FindTest, MountInfoIsTheKernels) {
  const std::string shared = SharedMount("shared");
  const MountFlags flags = {
      .read_only = true, .nosuid = true, .nodiratime = true, .nosymfollow = true, .atime = Atime::kNoatime};
  ASSERT_OK(mounter_.Bind(BindOf(shared, PrivateMount("parent") + "/slave", flags, Propagation::kSlave)));
  ASSERT_OK(mounter_.Bind(BindOf(Dir("source"), shared + "/strict", {.nodev = true, .atime = Atime::kStrictatime})));
  ASSERT_EQ(::mount("none", Dir("tmpfs").c_str(), "tmpfs", MS_RDONLY | MS_NOEXEC, nullptr), 0);
  BindRequest mapped = BindOf(Path("tmpfs"), Path("mapped"));
  mapped.idmap = "b:0:100000:65536";
  ASSERT_OK(mounter_.Bind(mapped));
  const auto listed = mounter_.List(dir_.path());
  ASSERT_OK(listed);
  for (const ListedMount& info : *listed) ExpectListed(info, *MountAt(info.target));
  for (const MountLine& line : MountsBelow(dir_.path())) {
    SCOPED_TRACE(line.target);
    const PathInfo info = Find(line.target);
    ASSERT_TRUE(info.mount);
    EXPECT_EQ(info.kind, Kind::kDirectory);
    ExpectLikeMountinfo(*info.mount, line);
    EXPECT_EQ(info.mount->device, StatOf(line.target).st_dev);
    EXPECT_EQ(info.device, StatOf(line.target).st_dev);
  }
}

TEST_F(FindTest, TellsOneMountFromItsReplacement) {
  if (!HasStatMount()) GTEST_SKIP() << "mountinfo's ids are used again: without statmount nobody can tell";
  ASSERT_OK(mounter_.Bind(BindOf(Dir("source"), Path("target"))));
  const std::uint64_t first = Find(Path("target")).mount->id;
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
  ASSERT_OK(mounter_.Bind(BindOf(Path("source"), Path("target"))));
  EXPECT_NE(Find(Path("target")).mount->id, first);
}

TEST_F(FindTest, TopmostOfAStack) {
  ASSERT_OK(mounter_.Bind(BindOf(Dir("source"), Path("target"))));
  ASSERT_EQ(::mount("none", Path("target").c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_EQ(Find(Path("target")).mount->fs_type, "tmpfs");
}

TEST_F(FindTest, DirectoryBelowAMountIsNoMount) {
  Dir("source/sub");
  ASSERT_OK(mounter_.Bind(BindOf(Path("source"), Path("target"))));
  EXPECT_FALSE(Find(Path("target/sub")).mount);
}

TEST_F(FindTest, RootOfABindIsThePathInItsFilesystem) {
  Dir("source/deep");
  ASSERT_OK(mounter_.Bind(BindOf(Path("source/deep"), Path("target"))));
  EXPECT_THAT(Find(Path("target")).mount->root, ::testing::EndsWith("/source/deep"));
  EXPECT_EQ(Find(Path("target")).mount->root, MountAt(Path("target"))->root);
}

TEST_F(FindTest, BoundDeviceNodeTellsItsLoopDevice) {
  const std::string image = Sparse("image", kMiB);
  const std::string device = Losetup("-r " + image);
  ASSERT_OK(mounter_.Bind(NodeBindOf(device, Path("target"))));
  const PathInfo info = Find(Path("target"));
  EXPECT_EQ(info.kind, Kind::kBlockDevice);
  EXPECT_EQ(info.device, StatOf(device).st_rdev);
  ASSERT_TRUE(info.mount);
  EXPECT_EQ(info.mount->root, device.substr(4)) << "of devtmpfs";
  ASSERT_TRUE(info.loop);
  EXPECT_EQ(info.loop->device, device);
  EXPECT_EQ(info.loop->device_number, StatOf(device).st_rdev);
  EXPECT_EQ(info.loop->backing_device, StatOf(image).st_dev);
  EXPECT_EQ(info.loop->backing_inode, StatOf(image).st_ino);
  EXPECT_TRUE(info.loop->read_only);
  EXPECT_FALSE(info.loop->auto_clear);
}

TEST_F(FindTest, LoopDeviceInNoUseHasNoLoopInfo) {
  const std::string device = Losetup(Sparse("image", kMiB));
  ASSERT_EQ(Tool("losetup -d " + device), 0);
  ASSERT_TRUE(NoLoopOver(Path("image")));
  const std::optional<LoopInfo> loop = Find(device).loop;  // of another test, which may have the device by now
  EXPECT_TRUE(!loop || (loop->backing_inode != 0 && loop->backing_inode != StatOf(Path("image")).st_ino));
}

// Find must not fail because the path is unmounted at that moment.
TEST_F(FindTest, NeverFailsWhileTheMountComesAndGoes) {
  Dir("source");
  std::atomic<bool> stop = false;
  std::thread mounting([&] {
    while (!stop) {
      EXPECT_OK(mounter_.Bind(BindOf(Path("source"), Path("target"))));
      EXPECT_OK(mounter_.Unmount(UnmountOf(Path("target"), true)));
    }
  });
  int mounted = 0;
  // At least until the other thread has had its turn.
  for (int i = 0; i < 20000 || (mounted == 0 && i < 5000000); ++i) {
    const auto info = mounter_.Find(Path("target"));
    EXPECT_OK(info);
    if (info.ok() && info->mount) ++mounted;
    if (HasFailure()) break;
  }
  stop = true;
  mounting.join();
  EXPECT_GT(mounted, 0);
}

void RunOn(int processor, int policy) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(processor), &set);
  const sched_param parameter = {};
  EXPECT_EQ(::sched_setaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(::sched_setscheduler(0, policy, &parameter), 0);
}

// rmdir(2) marks the directory as removed while its path still leads to it. At that moment it wakes the readers of the
// directory, and then gets no processor before Find has ended.
TEST_F(FindTest, ADirectoryThatIsBeingRemovedIsMissing) {
  const int processor = ::sched_getcpu();
  std::atomic<bool> stop = false;
  std::thread removing([&] {
    RunOn(processor, SCHED_IDLE);
    while (!stop) {
      EXPECT_EQ(::mkdir(Path("target").c_str(), 0700), 0);
      EXPECT_EQ(::rmdir(Path("target").c_str()), 0);
    }
  });
  std::thread finding([&] {
    RunOn(processor, SCHED_OTHER);
    for (int i = 0; i < 5000 && !HasFailure(); ++i) {
      EXPECT_OK(mounter_.Find(Path("target")));
      EXPECT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
      std::this_thread::sleep_for(std::chrono::microseconds(20 + i % 50));  // the other thread runs
    }
    stop = true;
  });
  finding.join();
  removing.join();
}

class ListTest : public FindTest {
 protected:
  std::vector<ListedMount> List(const std::string& path) {
    const auto mounts = mounter_.List(path);
    EXPECT_OK(mounts);
    return mounts.ok() ? *mounts : std::vector<ListedMount>();
  }
  static std::vector<std::string> Targets(const std::vector<ListedMount>& mounts) {
    std::vector<std::string> targets;
    for (const MountInfo& mount : mounts) targets.push_back(mount.target);
    return targets;
  }
};

TEST_F(ListTest, EverythingThatMountinfoHasAndNothingElse) {
  RemoveScratch();  // which is left out
  std::vector<std::string> wanted;
  for (const MountLine& line : Mounts()) wanted.push_back(line.target);
  EXPECT_THAT(Targets(List("/")), ::testing::UnorderedElementsAreArray(wanted));
}

TEST_F(ListTest, AtAndBelowAPathByComponent) {
  for (const char* name : {"a", "a/z", "a/z/b", "ab"}) PrivateMount(name);
  EXPECT_THAT(Targets(List(Path("a"))), ElementsAre(Path("a"), Path("a/z"), Path("a/z/b")));
  EXPECT_TRUE(List(Path("missing")).empty());
}

TEST_F(ListTest, ParentsComeFirstEvenIfTheyAreYounger) {
  PrivateMount("top");  // a mount is not moved out of a shared one
  PrivateMount("top/older");
  PrivateMount("top/younger");
  Dir("top/younger/place");
  ASSERT_EQ(::mount(Path("top/older").c_str(), Path("top/younger/place").c_str(), nullptr, MS_MOVE, nullptr), 0);
  EXPECT_THAT(Targets(List(dir_.path())), ElementsAre(Path("top"), Path("top/younger"), Path("top/younger/place")));
}

TEST_F(ListTest, ShowsAWholeStackAndWhatItHides) {
  PrivateMount("a");
  PrivateMount("a/b");
  ASSERT_EQ(::mount("none", Path("a").c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_THAT(Targets(List(Path("a"))), UnorderedElementsAre(Path("a"), Path("a"), Path("a/b")));
}

TEST_F(ListTest, AThousandMounts) {
  constexpr int kMounts = 1000;
  Dir("source");
  std::vector<std::string> wanted;
  for (int i = 0; i < kMounts; ++i) {
    wanted.push_back(Path("target" + std::to_string(i)));
    ASSERT_OK(mounter_.Bind(BindOf(Path("source"), wanted.back())));
  }
  EXPECT_THAT(Targets(List(dir_.path())), ::testing::UnorderedElementsAreArray(wanted));
  EXPECT_EQ(Find(Path("target500")).mount->target, Path("target500"));
  for (const std::string& target : wanted) ASSERT_OK(mounter_.Unmount(UnmountOf(target, true)));
  EXPECT_TRUE(List(dir_.path()).empty());
}

TEST_F(ListTest, NeverFailsWhileMountsComeAndGo) {
  Dir("source");
  PrivateMount("steady");
  std::atomic<bool> stop = false;
  std::thread mounting([&] {
    while (!stop) {
      EXPECT_OK(mounter_.Bind(BindOf(Path("source"), Path("target"))));
      EXPECT_OK(mounter_.Unmount(UnmountOf(Path("target"), true)));
    }
  });
  for (int i = 0; i < 1000; ++i) EXPECT_THAT(Targets(List(dir_.path())), ::testing::Contains(Path("steady")));
  stop = true;
  mounting.join();
}

}  // namespace
}  // namespace mooring::testing
