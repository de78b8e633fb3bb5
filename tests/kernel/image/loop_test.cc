// Loop devices without a mount, as raw block volumes use them.
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "mounter/image/image.h"
#include "mounter/loop/loop_device.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class LoopTest : public KernelTest {
 protected:
  absl::StatusOr<LoopInfo> TryAttach(const std::string& file, const std::string& label = "test") {
    return mounter_.AttachLoop({.backing_file = file, .label = label});
  }
  LoopInfo Attach(const std::string& file, bool read_only = false, const std::string& label = "test") {
    const auto info = mounter_.AttachLoop({.backing_file = file, .label = label, .read_only = read_only});
    EXPECT_OK(info);
    return info.ok() ? *info : LoopInfo();
  }
  std::vector<LoopInfo> Find(const std::string& file) {
    const auto loops = mounter_.FindLoops(file);
    EXPECT_OK(loops);
    return loops.ok() ? *loops : std::vector<LoopInfo>();
  }
  static std::uint64_t SizeOf(const std::string& device) {
    return std::stoull("0" + ReadFile("/sys/block/" + device.substr(5) + "/size")) * 512;
  }
};

TEST_F(LoopTest, AttachReturnsTheValuesOfSysfsAndStat) {
  const std::string image = Sparse("image", kMiB);
  const LoopInfo info = Attach(image, false, "volume-1");
  const std::vector<LoopLine> lines = LoopsOver(image);
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(info.device, lines[0].device);
  EXPECT_EQ(info.device_number, StatOf(info.device).st_rdev);
  EXPECT_EQ(info.backing_device, StatOf(image).st_dev);
  EXPECT_EQ(info.backing_inode, StatOf(image).st_ino);
  EXPECT_EQ(info.backing_rdev, 0U);
  EXPECT_EQ(info.label, "volume-1");
  EXPECT_FALSE(info.read_only);
  EXPECT_FALSE(info.auto_clear);
  EXPECT_FALSE(lines[0].auto_clear) << "it stays until it is detached";
  EXPECT_TRUE(info.raw);
  EXPECT_EQ(SizeOf(info.device), kMiB);
}

TEST_F(LoopTest, AttachAgainReturnsTheSameDeviceWithTheNewSize) {
  const std::string image = Sparse("image", kMiB);
  const std::string device = Attach(image).device;
  ASSERT_EQ(::truncate(image.c_str(), 2 * kMiB), 0);
  EXPECT_EQ(Attach(image).device, device);
  EXPECT_THAT(LoopsOver(image), SizeIs(1));
  EXPECT_EQ(SizeOf(device), 2 * kMiB);
  ASSERT_EQ(TryWrite(device, "block data"), 0);
  EXPECT_EQ(ReadFile(image).substr(0, 10), "block data");
}

TEST_F(LoopTest, ReadOnlyDeviceRefusesWritesUntilItIsAttachedAgain) {
  const std::string image = Sparse("image", kMiB);
  const LoopInfo info = Attach(image, true);
  EXPECT_TRUE(info.read_only);
  EXPECT_EQ(TryWrite(info.device, "x"), EPERM);
  EXPECT_EQ(ReadFile(image).find('x'), std::string::npos);
  ASSERT_OK(mounter_.DetachLoop(info));
  ASSERT_TRUE(NoLoopOver(image));
  EXPECT_EQ(TryWrite(Attach(image).device, "x"), 0);
}

// A read-only publish of a writable block volume stacks devices in this way.
TEST_F(LoopTest, ReadOnlyDeviceOnAWritableOneRefusesWritesAndShowsThem) {
  const std::string image = Sparse("image", kMiB);
  const LoopInfo base = Attach(image);
  const LoopInfo reader = Attach(base.device, true, "reader");
  EXPECT_NE(reader.device, base.device);
  EXPECT_EQ(reader.backing_rdev, base.device_number);
  ASSERT_OK(mounter_.Bind(NodeBindOf(reader.device, Path("target"))));
  EXPECT_EQ(TryWrite(Path("target"), "x"), EPERM);
  ASSERT_EQ(TryWrite(base.device, "written below"), 0);
  UniqueFd fresh(::open(Path("target").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::ioctl(fresh.get(), BLKFLSBUF, 0), 0);
  fresh.reset();
  EXPECT_EQ(ReadFile(Path("target")).substr(0, 13), "written below");
  EXPECT_THAT(Find(base.device), SizeIs(1)) << "by the number of the device it stands on";
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
  ASSERT_OK(mounter_.DetachLoop(reader));
  EXPECT_TRUE(Eventually([&] { return Find(base.device).empty(); }));
}

TEST_F(LoopTest, ForeignDeviceOnADeviceOfOursIsNotTaken) {
  const LoopInfo base = Attach(Sparse("image", kMiB));
  const std::string foreign = Losetup("-r " + base.device);
  const LoopInfo ours = Attach(base.device, true, "ours");
  EXPECT_NE(ours.device, foreign);
  EXPECT_EQ(Tool("losetup -d " + foreign), 0);
  EXPECT_OK(mounter_.DetachLoop(ours));
  EXPECT_TRUE(Eventually([&] { return Find(base.device).empty(); }));
}

TEST_F(LoopTest, BoundInAnotherWayIsRefused) {
  const std::string image = Sparse("image", kMiB);
  const std::string device = Losetup("-o 4096 " + image);
  EXPECT_THAT(TryAttach(image), Refused("losetup -d " + device));
  EXPECT_THAT(LoopsOver(image), SizeIs(1));
}

TEST_F(LoopTest, MountedImageIsRefusedAndStaysMounted) {
  const std::string image = Ext4Image("image");
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"))));
  EXPECT_THAT(TryAttach(image), Refused("in use as a filesystem"));
  EXPECT_EQ(TryWrite(Path("target/file"), "x"), 0);
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_F(LoopTest, LabelOf63BytesIsKeptAndALongerOneRefused) {
  const std::string image = Sparse("image", kMiB);
  const std::string label(63, 'l');
  EXPECT_EQ(Attach(image, false, label).label, label);
  EXPECT_THAT(TryAttach(Sparse("other", kMiB), label + "l"), FailsWith(StatusCode::kInvalidArgument, "label"));
  EXPECT_THAT(LoopsOver(Path("other")), IsEmpty());
}

TEST_F(LoopTest, MissingFileIsNotFoundAndADirectoryRefused) {
  EXPECT_THAT(TryAttach(Path("missing")), FailsWith(StatusCode::kNotFound, Path("missing")));
  EXPECT_THAT(TryAttach(Dir("directory")), Refused(Path("directory")));
  EXPECT_THAT(mounter_.FindLoops(Path("missing")), FailsWith(StatusCode::kNotFound, Path("missing")));
}

TEST_F(LoopTest, DetachIsIdempotent) {
  const std::string image = Sparse("image", kMiB);
  const LoopInfo loop = Attach(image);
  ASSERT_OK(mounter_.DetachLoop(loop));
  EXPECT_TRUE(NoLoopOver(image));
  EXPECT_OK(mounter_.DetachLoop(loop));
  LoopInfo never = loop;
  never.device = "/dev/loop999999";
  never.device_number = makedev(7, 999999);
  EXPECT_OK(mounter_.DetachLoop(never));
  EXPECT_FALSE(Exists("/dev/loop999999"));
}

TEST_F(LoopTest, DetachOfAnOpenDeviceGoesWithItsLastUser) {
  const std::string image = Sparse("image", kMiB);
  const LoopInfo loop = Attach(image);
  UniqueFd user(::open(loop.device.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_OK(mounter_.DetachLoop(loop));
  EXPECT_THAT(LoopsOver(image), SizeIs(1));
  user.reset();
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_F(LoopTest, ResizeAdoptsTheSizeOfTheFileOfAnAttachedDevice) {
  const std::string image = Sparse("image", kMiB);
  const LoopInfo loop = Attach(image);
  ASSERT_EQ(::truncate(image.c_str(), 3 * kMiB), 0);
  EXPECT_EQ(SizeOf(loop.device), kMiB);
  ASSERT_OK(mounter_.ResizeLoop(loop));
  EXPECT_EQ(SizeOf(loop.device), 3 * kMiB);
  ASSERT_OK(mounter_.DetachLoop(loop));
  ASSERT_TRUE(NoLoopOver(image));
  EXPECT_THAT(mounter_.ResizeLoop(loop), Refused(loop.device));
}

// The kernel reuses numbers at once.
TEST_F(LoopTest, NumberOfAnotherFileIsLeftAlone) {
  const std::string image = Sparse("image", kMiB), other = Sparse("other", kMiB);
  const std::string device = Losetup(image);
  const LoopInfo before = Find(image).at(0);
  ASSERT_EQ(Tool("losetup -d " + device), 0);
  ASSERT_EQ(Tool("losetup " + device + " " + other), 0);
  ASSERT_EQ(::truncate(other.c_str(), 2 * kMiB), 0);
  EXPECT_OK(mounter_.DetachLoop(before));
  EXPECT_THAT(mounter_.ResizeLoop(before), Refused(before.device));
  EXPECT_THAT(LoopsOver(other), SizeIs(1));
  EXPECT_EQ(SizeOf(before.device), kMiB);
}

// Another process that looks at a detached device, or an earlier user, keeps it for a while.
TEST_F(LoopTest, DeviceAboutToGoStaysWhenAttachedAgain) {
  const std::string image = Sparse("image", kMiB);
  const LoopInfo before = Attach(image, false, "before");
  UniqueFd user(::open(before.device.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_OK(mounter_.DetachLoop(before));
  ASSERT_TRUE(Find(image).at(0).auto_clear);
  const LoopInfo now = Attach(image, false, "now");
  EXPECT_EQ(now.device, before.device);
  EXPECT_FALSE(now.auto_clear);
  user.reset();
  EXPECT_FALSE(Find(image).at(0).auto_clear);
  EXPECT_EQ(Find(image).at(0).label, "now");
  ASSERT_OK(mounter_.DetachLoop(now));
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_F(LoopTest, AttachesRightAfterDetachWhileOthersLook) {
  const std::string image = Sparse("image", kMiB);
  std::atomic<bool> stop = false;
  std::thread looking([&] {
    while (!stop) mounter_.FindLoops("").IgnoreError();
  });
  for (int i = 0; i < 100 && !HasFailure(); ++i) EXPECT_OK(mounter_.DetachLoop(Attach(image)));
  stop = true;
  looking.join();
  EXPECT_TRUE(NoLoopOver(image));
}

TEST_F(LoopTest, DeviceWithAFilesystemInUseIsMounted) {
  for (const std::string& image : {Ext4Image("ext4"), XfsImage("xfs")}) {
    const std::string type = image == Path("xfs") ? "xfs" : "ext4";
    ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"), type)));
    EXPECT_TRUE(Find(image).at(0).mounted);
    const UniqueFd user(::open(LoopsOver(image).at(0).device.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
    EXPECT_TRUE(Eventually([&] { return !Find(image).at(0).mounted; }));
  }
}

TEST_F(LoopTest, IsNotHeldOpenForWriting) {
  const auto image = LockImage(Sparse("image", kMiB));
  ASSERT_OK(image);
  const auto loop = OpenOrAttachLoop({.label = "test", .auto_clear = true}, *image);
  ASSERT_OK(loop);
  EXPECT_TRUE(loop->made);
  EXPECT_EQ(::fcntl(loop->fd.get(), F_GETFL) & O_ACCMODE, O_RDONLY) << "kernels may refuse to mount it then";
  EXPECT_EQ(TryWrite(loop->info.device, "x"), 0);
}

TEST_F(LoopTest, FindIsByInode) {
  const std::string image = Sparse("image", kMiB);
  EXPECT_THAT(Find(image), IsEmpty());
  const std::string device = Attach(image).device;
  Attach(Sparse("other", kMiB));
  const std::string renamed = Path("renamed");
  ASSERT_EQ(::rename(image.c_str(), renamed.c_str()), 0);
  const std::vector<LoopInfo> loops = Find(renamed);
  ASSERT_THAT(loops, SizeIs(1));
  EXPECT_EQ(loops[0].device, device);
  EXPECT_THAT(Find(Sparse("image", kMiB)), IsEmpty()) << "another file under the old name";
}

TEST_F(LoopTest, FindOfNoFileGivesAllOfTheHost) {
  const std::string device = Attach(Sparse("image", kMiB)).device;
  const std::string foreign = Losetup(Sparse("other", kMiB));
  std::vector<std::string> devices;
  for (const LoopInfo& loop : Find("")) devices.push_back(loop.device);
  EXPECT_THAT(devices, ::testing::IsSupersetOf({device, foreign}));
}

TEST_F(LoopTest, ManyThreadsAttachOneDevice) {
  const std::string image = Sparse("image", kMiB);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { Attach(image); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(LoopsOver(image), SizeIs(1));
}

// The /dev of a container may be a copy that is older than the device.
TEST_F(LoopTest, NodeMissingInDevIsMade) {
  const std::string image = Sparse("image", kMiB);
  const std::string device = Attach(image).device;
  const MountNamespace container(MountNamespace::Kind::kSlave);
  const std::string answer = container.Ask([&] {
    if (Tool("mount -t tmpfs none /dev && mknod /dev/loop-control c 10 237") != 0) return std::string("no /dev");
    const auto info = TryAttach(image);
    return info.ok() ? info->device + (Exists(device) ? " is there" : " is missing") : info.status().ToString();
  });
  EXPECT_EQ(answer, device + " is there");
}

TEST_F(LoopTest, NodesMissingInDevAreMadeByManyAtOnce) {
  const std::string image = Sparse("image", kMiB);
  const std::string device = Attach(image).device;
  const MountNamespace container(MountNamespace::Kind::kSlave);
  const std::string answer = container.Ask([&] {
    for (int round = 0; round < 50; ++round) {
      if (Tool("mount -t tmpfs none /dev") != 0) return std::string("no /dev");
      std::atomic<int> waiting = 8, failed = 0;
      std::vector<std::thread> threads;
      for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] {
          --waiting;
          while (waiting > 0) {
          }
          failed += mounter_.FindLoops(image)->size() == 1 ? 0 : 1;
        });
      }
      for (std::thread& thread : threads) thread.join();
      if (failed > 0 || ::umount2("/dev", 0) != 0) return std::to_string(failed) + " failed";
    }
    return std::string("found");
  });
  EXPECT_EQ(answer, "found");
}

// LOOP_GET_STATUS64 of every device fails with `error` from now on.
bool FailLoopStatus(int error) {
  std::array filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + sizeof(std::uint64_t)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LOOP_GET_STATUS64, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

// It may be the device that is looked for, and a second device would destroy its filesystem.
TEST_F(LoopTest, DeviceThatCannotBeLookedAtFailsTheListUnlessItsServerIsDead) {
  const std::string device = Losetup(Sparse("image", kMiB));
  const auto list_with = [&](int error) {
    return AskInChild([&] {
      if (!FailLoopStatus(error)) return std::string("no filter");
      const auto loops = mounter_.FindLoops("");
      if (!loops.ok()) return loops.status().ToString();
      for (const LoopInfo& loop : *loops) {
        if (loop.device == device) return (loop.hangs() ? "hangs " : "does not hang ") + loop.label;
      }
      return std::string("not listed");
    });
  };
  for (const int error : {EIO, ENOTCONN, ESTALE, EHOSTDOWN, ESHUTDOWN, ECONNABORTED}) {
    EXPECT_EQ(list_with(error), "hangs " + Path("image")) << error;
  }
  for (const int error : {ENOMEM, EPERM, EINTR, EINVAL}) {
    EXPECT_THAT(list_with(error), HasSubstr("ask for the status of '/dev/loop")) << error;
  }
}

}  // namespace
}  // namespace mooring::testing
