// The loop devices that tasks get: what the kernel does with them when a task, or everybody, turns against them.
#include "mounter/loop/raw_device.h"

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
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <iterator>
#include <set>
#include <thread>

#include "mounter/loop/device_holder.h"
#include "tests/kernel/kernel_test.h"
#include "tests/support/fuse_server.h"
#include "tests/support/holders.h"

namespace mooring::testing {
namespace {

class RawDeviceTest : public KernelTest {
 protected:
  LoopInfo Attach(const std::string& file, bool read_only = false, const std::string& label = "volume-1") {
    const auto info = mounter_.AttachLoop({.backing_file = file, .label = label, .read_only = read_only});
    EXPECT_OK(info);
    return info.ok() ? *info : LoopInfo();
  }
  static bool InSysfs(const std::string& device) { return Exists("/sys/block/" + device.substr(5)); }
  static UniqueFd Task(const LoopInfo& loop, int mode) {
    return UniqueFd(::open(loop.device.c_str(), mode | O_CLOEXEC));
  }
  LoopInfo Now(const std::string& image) {
    const auto loops = mounter_.FindLoops(image);
    EXPECT_OK(loops);
    EXPECT_THAT(*loops, SizeIs(1));
    return loops->empty() ? LoopInfo() : loops->front();
  }
};

// All processes of a container end, and a task detaches its device, which no process has open.
TEST_F(RawDeviceTest, StaysWithoutAnyProcess) {
  const std::string image = Sparse("image", kMiB);
  const LoopInfo loop = Attach(image);
  EXPECT_TRUE(IsRawNumber(minor(loop.device_number)));
  KillHolders(loop.device);
  for (const int mode : {O_RDONLY, O_RDWR}) {
    ASSERT_EQ(::ioctl(Task(loop, mode).get(), LOOP_CLR_FD), 0);
    EXPECT_EQ(Now(image).device, loop.device);
    EXPECT_TRUE(Now(image).auto_clear);
    EXPECT_FALSE(Now(image).is_going()) << "the hold has it open";
    EXPECT_NE(Losetup(Sparse("other", kMiB)), loop.device);
    EXPECT_EQ(Attach(image).device, loop.device) << "it is found, and held again";
    EXPECT_FALSE(Now(image).auto_clear);
    EXPECT_THAT(*HoldersOf(loop.device_number), SizeIs(1));
    KillHolders(loop.device);
  }
}

// `losetup -D` detaches the hold, because no process has it open. A process has the device open.
TEST_F(RawDeviceTest, StaysWithoutItsHold) {
  const std::string image = Sparse("image", kMiB);
  const LoopInfo loop = Attach(image);
  ASSERT_EQ(Tool("losetup -d " + HoldOfDevice(loop.device)), 0);
  ASSERT_EQ(Tool("losetup -d " + loop.device), 0);
  ASSERT_TRUE(Eventually([&] { return !HasHold(loop.device); }));
  EXPECT_EQ(Now(image).label, "") << "a task may have written the label of the device";
  LoopInfo again = Now(image);
  again.label = "volume-1";
  ASSERT_OK(mounter_.HoldLoop(again));
  EXPECT_TRUE(HasHold(loop.device));
  EXPECT_EQ(Now(image).label, "volume-1");
  EXPECT_FALSE(Now(image).auto_clear);
}

TEST_F(RawDeviceTest, NumbersAreUsedOnceAndLeaveNothing) {
  const std::string image = Sparse("image", kMiB);
  std::set<std::string> devices;
  for (int i = 0; i < 20; ++i) {
    const LoopInfo loop = Attach(image);
    EXPECT_TRUE(devices.insert(loop.device).second) << loop.device;
    ASSERT_OK(mounter_.DetachLoop(loop));
    ASSERT_TRUE(NoLoopOver(image)) << "another process may have it open for a moment";
  }
  // The next one removes those that another process had open when they were detached.
  ASSERT_OK(mounter_.DetachLoop(Attach(image)));
  for (const std::string& device : devices) {
    EXPECT_FALSE(InSysfs(device)) << "the kernel would give it to the next program";
    EXPECT_FALSE(InSysfs(HoldOfDevice(device)));
    EXPECT_FALSE(Exists(device));
  }
}

// The kernel makes the device anew when a task opens its old node.
TEST_F(RawDeviceTest, DeviceMadeByAnOldNodeIsRemoved) {
  const LoopInfo loop = Attach(Sparse("image", kMiB));
  ASSERT_OK(mounter_.DetachLoop(loop));
  const std::string node = Path("node-of-the-task");
  ASSERT_EQ(::mknod(node.c_str(), S_IFBLK | 0600, loop.device_number), 0);
  UniqueFd task(::open(node.c_str(), O_RDWR | O_CLOEXEC));
  if (!task.ok()) GTEST_SKIP() << "this kernel does not make devices for nodes";
  ASSERT_TRUE(InSysfs(loop.device));
  task.reset();
  // Another process may have it open for a moment. Then it stays attached for as long, and a later call removes it.
  EXPECT_TRUE(Eventually([&] {
    const LoopInfo next = Attach(Path("image"));
    EXPECT_OK(mounter_.DetachLoop(next));
    return next.device != loop.device && !InSysfs(loop.device);
  }));
}

TEST_F(RawDeviceTest, LabelAndStartThatATaskChangesAreNotBelieved) {
  const std::string image = File("image", std::string(kMiB, 'x'));
  const LoopInfo loop = Attach(image);
  {
    const UniqueFd task = Task(loop, O_RDWR);
    loop_info64 status = {};
    ASSERT_EQ(::ioctl(task.get(), LOOP_GET_STATUS64, &status), 0);
    std::strcpy(reinterpret_cast<char*>(status.lo_file_name), "mooring:vol-2");
    status.lo_offset = 4096;
    status.lo_sizelimit = 8192;
    ASSERT_EQ(::ioctl(task.get(), LOOP_SET_STATUS64, &status), 0);
  }
  EXPECT_EQ(Now(image).label, "volume-1");
  EXPECT_EQ(mounter_.Find(loop.device)->loop->label, "volume-1");
  EXPECT_EQ(Now(image).offset, 4096U);
  const LoopInfo again = Attach(image);
  EXPECT_EQ(again.device, loop.device);
  EXPECT_EQ(again.offset, 0U);
  EXPECT_EQ(again.size_limit, 0U);
  EXPECT_EQ(ReadFile("/sys/block/" + loop.device.substr(5) + "/size"), std::to_string(kMiB / 512) + "\n");
}

// Without a capability, a reader exchanges the file of its device. The hold tells which device it is.
TEST_F(RawDeviceTest, ReaderThatExchangesItsFileKeepsItsLabelAndIsDetached) {
  const LoopInfo base = Attach(Sparse("image", kMiB));
  const LoopInfo reader = Attach(base.device, true, "reader-1"), other = Attach(base.device, true, "reader-2");
  EXPECT_NE(reader.device, other.device) << "each target has its own";
  const UniqueFd own(::open(Sparse("own", kMiB).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::ioctl(Task(reader, O_RDONLY).get(), LOOP_CHANGE_FD, own.get()), 0);
  EXPECT_EQ(mounter_.Find(reader.device)->loop->label, "reader-1");
  EXPECT_EQ(Now(base.device).device, other.device) << "which still has the volume";
  ASSERT_OK(mounter_.DetachLoop(reader));
  // Another process may have it open for a moment.
  EXPECT_TRUE(Eventually([&] { return !Exists("/sys/block/" + reader.device.substr(5) + "/loop"); }));
  ASSERT_OK(mounter_.DetachLoop(other));
  ASSERT_OK(mounter_.DetachLoop(base));
}

TEST_F(RawDeviceTest, ReaderThatExchangesItsFileForOneThatHangsIsHeldAndDetached) {
  const LoopInfo base = Attach(Sparse("image", kMiB));
  FuseServer fuse(Dir("fuse"));
  const std::string file = File("fuse/own", std::string(kMiB, 'x'));
  for (const bool refuses : {false, true}) {
    const LoopInfo reader = Attach(base.device, true, "reader");
    UniqueFd own(::open(file.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::ioctl(Task(reader, O_RDONLY).get(), LOOP_CHANGE_FD, own.get()), 0);
    own.reset();
    refuses ? fuse.Fail(EIO) : fuse.Hang();
    std::future<void> calls = std::async(std::launch::async, [&] {
      EXPECT_OK(mounter_.HoldLoop(reader));
      EXPECT_OK(mounter_.DetachLoop(reader));
    });
    EXPECT_EQ(calls.wait_for(std::chrono::seconds(5)), std::future_status::ready);
    refuses ? fuse.Fail(0) : fuse.Resume();
    calls.wait();
    EXPECT_TRUE(Eventually([&] { return !Exists("/sys/block/" + reader.device.substr(5) + "/loop"); }));
  }
  ASSERT_EQ(::umount2(Path("fuse").c_str(), MNT_DETACH), 0);
  ASSERT_OK(mounter_.DetachLoop(base));
}

TEST_F(RawDeviceTest, DetachWritesWhatWasNotSynced) {
  const std::string image = Sparse("image", 8 * kMiB);
  const std::string data(4 * kMiB, 'd');
  for (const bool held : {true, false}) {
    const LoopInfo loop = Attach(image);
    if (!held) KillHolders(loop.device);
    UniqueFd task = Task(loop, O_RDWR);
    ASSERT_EQ(::pwrite(task.get(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
    task.reset();
    ASSERT_OK(mounter_.DetachLoop(loop));
    EXPECT_TRUE(NoLoopOver(image));
    EXPECT_TRUE(ReadFile(image).substr(0, data.size()) == data);
    ASSERT_EQ(::truncate(image.c_str(), 0), 0);
    ASSERT_EQ(::truncate(image.c_str(), 8 * kMiB), 0);
  }
}

// The kernel tells of it once. A process that is killed before it has told its caller leaves it to the next one.
TEST_F(RawDeviceTest, AFailedWriteIsKnownUntilItIsTold) {
  ASSERT_EQ(::mount("none", Dir("pool").c_str(), "tmpfs", 0, "size=16m"), 0);
  const LoopInfo loop = Attach(Sparse("pool/image", 8 * kMiB));
  const unsigned number = minor(loop.device_number);
  const auto noted = [number] { return FlushHold(number)->noted; };
  EXPECT_EQ(noted(), FailureNote::kNone);
  Tool("cat /dev/zero >" + Path("pool/ballast") + " 2>/dev/null");
  UniqueFd task = Task(loop, O_RDWR);
  const std::string data(kMiB, 'd');
  ASSERT_EQ(::pwrite(task.get(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  EXPECT_NE(::fsync(task.get()), 0);
  task.reset();
  std::filesystem::remove(Path("pool/ballast"));
  for (int times = 0; times < 3; ++times) EXPECT_EQ(noted(), FailureNote::kUntold);
  for (const FailureNote note : {FailureNote::kTold, FailureNote::kNone}) {
    NoteFailure(number, note);
    EXPECT_EQ(noted(), note);
  }
  EXPECT_THAT(mounter_.DetachLoop(loop), FailsWith(absl::StatusCode::kResourceExhausted, "call again to go on"))
      << "memory still has the data, which the file lacks";
  ASSERT_OK(mounter_.DetachLoop(loop));
  EXPECT_TRUE(Eventually([&] { return ::umount(Path("pool").c_str()) == 0; })) << "the kernel needs a moment";
}

// Kills this process when it sets the read-ahead of a device, which is the note of a failure.
void EndAtNotes() {
  const sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
                              BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BLKRASET, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter = {std::size(code), const_cast<sock_filter*>(std::data(code))};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) ::_exit(1);
}

// The mounter is killed in a detach, between its flushes. The next detach must not drop what could not be written.
TEST_F(RawDeviceTest, AFailedWriteIsKnownAfterAKill) {
  ASSERT_EQ(::mount("none", Dir("pool").c_str(), "tmpfs", 0, "size=16m"), 0);
  const LoopInfo loop = Attach(Sparse("pool/image", 8 * kMiB));
  Tool("cat /dev/zero >" + Path("pool/ballast") + " 2>/dev/null");
  UniqueFd task = Task(loop, O_RDWR);
  const std::string data(kMiB, 'd');
  ASSERT_EQ(::pwrite(task.get(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  const pid_t child = ::fork();
  if (child == 0) {
    EndAtNotes();
    ::_exit(mounter_.DetachLoop(loop).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(mounter_.DetachLoop(loop), FailsWith(absl::StatusCode::kInternal, "the device stays attached"));
  task.reset();
  std::filesystem::remove(Path("pool/ballast"));
  ASSERT_OK(mounter_.DetachLoop(loop));
  EXPECT_EQ(ReadFile(Path("pool/image")).substr(0, kMiB), data);
  EXPECT_TRUE(Eventually([&] { return ::umount(Path("pool").c_str()) == 0; })) << "the kernel needs a moment";
}

// The kernel takes a write of two pages for done if the file has room for the first. A detach must not believe that.
TEST_F(RawDeviceTest, AWriteThatIsOnlyHalfDoneIsNotBelieved) {
  ASSERT_EQ(::mount("none", Dir("pool").c_str(), "tmpfs", 0, "size=16m"), 0);
  const std::string image = Sparse("pool/image", 8 * kMiB), ballast = Path("pool/ballast");
  const LoopInfo loop = Attach(image);
  ReadFile(loop.device);  // now its holes are in the cache, and need no room
  Tool("cat /dev/zero >" + ballast + " 2>/dev/null");
  constexpr std::size_t kPage = 4096;
  const std::string data = std::string(kPage, 'a') + std::string(kPage, 'b');
  UniqueFd task = Task(loop, O_RDWR);
  ASSERT_EQ(::pwrite(task.get(), data.data(), data.size(), kMiB), static_cast<ssize_t>(data.size()));
  task.reset();
  const auto is_told = FailsWith(absl::StatusCode::kInternal, "the device stays attached");
  for (int call = 0; call < 2; ++call) EXPECT_THAT(mounter_.DetachLoop(loop), is_told);
  EXPECT_EQ(StatOf(image).st_blocks, 0);
  ASSERT_EQ(::truncate(ballast.c_str(), StatOf(ballast).st_size - static_cast<off_t>(kPage)), 0);
  for (int call = 0; call < 2; ++call) EXPECT_THAT(mounter_.DetachLoop(loop), is_told) << "room for one of two pages";
  std::filesystem::remove(ballast);
  EXPECT_EQ(::fsync(Task(loop, O_RDWR).get()), 0);
  EXPECT_TRUE(ReadFile(image).substr(kMiB, data.size()) == data) << "the kernel did not know of the rest";
  EXPECT_OK(mounter_.DetachLoop(loop));
  EXPECT_TRUE(Eventually([&] { return ::umount(Path("pool").c_str()) == 0; })) << "the kernel needs a moment";
}

// A program that syncs such a write is told OK by the kernel, and then the pages are clean. The disk may have room
// again when the device is detached: then the file has a hole where memory has data.
TEST_F(RawDeviceTest, AWriteThatIsOnlyHalfDoneIsToldAlthoughItsSyncWasGood) {
  for (const bool has_room_again : {false, true}) {
    SCOPED_TRACE(has_room_again);
    ASSERT_EQ(::mount("none", Dir("pool").c_str(), "tmpfs", 0, "size=16m"), 0);
    const std::string image = Sparse("pool/image", 8 * kMiB), ballast = Path("pool/ballast");
    const LoopInfo loop = Attach(image);
    ReadFile(loop.device);
    Tool("cat /dev/zero >" + ballast + " 2>/dev/null");
    constexpr std::size_t kPage = 4096;
    ASSERT_EQ(::truncate(ballast.c_str(), StatOf(ballast).st_size - static_cast<off_t>(kPage)), 0);
    const std::string data = std::string(kPage, 'a') + std::string(kPage, 'b');
    UniqueFd task = Task(loop, O_RDWR);
    ASSERT_EQ(::pwrite(task.get(), data.data(), data.size(), kMiB), static_cast<ssize_t>(data.size()));
    ASSERT_EQ(::fsync(task.get()), 0) << "the kernel has become better";
    task.reset();
    if (has_room_again) std::filesystem::remove(ballast);
    const char* const words = has_room_again ? "call again to go on" : "the device stays attached";
    EXPECT_THAT(mounter_.DetachLoop(loop), FailsWith(absl::StatusCode::kResourceExhausted, words));
    std::filesystem::remove(ballast);
    EXPECT_OK(mounter_.DetachLoop(loop));
    EXPECT_TRUE(ReadFile(image).substr(kMiB, data.size()) == data);
    EXPECT_TRUE(Eventually([&] { return ::umount(Path("pool").c_str()) == 0; })) << "the kernel needs a moment";
  }
}

// A loop device over a file on overlay has no direct I/O. So the cache of the file has the data, and its disk lacks it.
TEST_F(RawDeviceTest, DataThatOnlyTheCacheOfTheFileHasIsWrittenAgain) {
  ASSERT_EQ(::mount("none", Dir("below").c_str(), "tmpfs", 0, "size=48m"), 0);
  const std::string disk = Sparse("below/disk", 32 * kMiB);
  Dir("lower");
  Dir("pool");
  ASSERT_EQ(Tool("cd " + dir_.path() +
                 " && mkfs.ext4 -q -F -b 4096 -O ^has_journal below/disk && mount -o loop below/disk lower && " +
                 "mkdir lower/empty lower/upper lower/work && " +
                 "mount -t overlay -o lowerdir=lower/empty,upperdir=lower/upper,workdir=lower/work none pool"),
            0);
  const std::string image = Path("pool/image"), before(kMiB, 'b'), data(kMiB, 'd');
  File("pool/image", before);
  ASSERT_EQ(Tool("sync " + image), 0);
  const std::size_t at = ReadFile(disk).find(before);  // where the disk has it
  ASSERT_NE(at, std::string::npos);
  UniqueFd hole(::open(disk.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::fallocate(hole.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), kMiB), 0);
  hole.reset();
  ASSERT_EQ(Tool("mount -o remount,size=$(df --output=used -B1 " + Path("below") + " | tail -n 1) " + Path("below")),
            0);
  const LoopInfo loop = Attach(image);
  UniqueFd task = Task(loop, O_RDWR);
  ASSERT_EQ(::pwrite(task.get(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  task.reset();
  const auto is_told = FailsWith(absl::StatusCode::kInternal, "the device stays attached");
  for (int call = 0; call < 2; ++call) EXPECT_THAT(mounter_.DetachLoop(loop), is_told);
  ASSERT_EQ(Tool("mount -o remount,size=48m " + Path("below")), 0);
  EXPECT_OK(mounter_.DetachLoop(loop));
  EXPECT_TRUE(ReadFile(disk).substr(at, kMiB) == data);
  for (const char* place : {"pool", "lower", "below"}) {
    EXPECT_TRUE(Eventually([&] { return ::umount(Path(place).c_str()) == 0; })) << place;
  }
}

// A shutdown sends SIGTERM to all processes, and waits for processes that it does not end.
TEST_F(RawDeviceTest, AHolderEndsOnSigterm) {
  const LoopInfo loop = Attach(Sparse("image", kMiB));
  const auto holders = HoldersOf(loop.device_number);
  ASSERT_OK(holders);
  ASSERT_THAT(*holders, SizeIs(1));
  ASSERT_EQ(::kill(holders->front(), SIGTERM), 0);
  EXPECT_TRUE(Eventually([&] { return HoldersOf(loop.device_number)->empty(); }));
  ASSERT_OK(mounter_.DetachLoop(loop));
}

// Processes with a holder's name end while their descriptors are looked at.
TEST_F(RawDeviceTest, AHolderMayEndWhileItIsLookedFor) {
  const LoopInfo loop = Attach(Sparse("image", kMiB));
  std::atomic<bool> ends = false;
  std::thread others([&] {
    while (!ends) {
      std::vector<pid_t> started(30);
      for (pid_t& pid : started) {
        if ((pid = ::fork()) != 0) continue;
        ::prctl(PR_SET_NAME, std::string(kHolderName).c_str());
        ::pause();
      }
      for (const pid_t pid : started) ::kill(pid, SIGKILL);
      for (const pid_t pid : started) ::waitpid(pid, nullptr, 0);
    }
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  absl::StatusOr<std::vector<pid_t>> holders;
  do {
    holders = HoldersOf(loop.device_number);
  } while (holders.ok() && holders->size() == 1 && std::chrono::steady_clock::now() < until);
  ends = true;
  others.join();
  ASSERT_OK(holders);
  EXPECT_THAT(*holders, SizeIs(1));
  ASSERT_OK(mounter_.DetachLoop(loop));
}

// mounter/loop/loop_config.h has the reason for each filesystem.
class DirectIoTest : public RawDeviceTest {
 protected:
  static bool IsDirect(const std::string& device) {
    return ReadFile("/sys/block/" + device.substr(5) + "/loop/dio").starts_with('1');
  }
  // The image lies in this pool. Data that is written through the device is read through it, and in the file.
  void Expect(bool direct, const std::string& pool, const std::string& prepare = "") {
    const std::string image = pool + "/image";
    ASSERT_EQ(Tool("touch " + image + " && " + (prepare.empty() ? "true" : prepare + " " + image)), 0);
    ASSERT_EQ(::truncate(image.c_str(), kMiB), 0);
    const LoopInfo loop = Attach(image);
    EXPECT_EQ(IsDirect(loop.device), direct) << pool;
    EXPECT_EQ(TryWrite(loop.device, "written"), 0) << pool;
    EXPECT_EQ(::ioctl(Task(loop, O_RDWR).get(), BLKFLSBUF, 0), 0);
    EXPECT_EQ(ReadFile(loop.device).substr(0, 7), "written") << pool;
    EXPECT_EQ(ReadFile(image).substr(0, 7), "written") << pool;
    ASSERT_OK(mounter_.DetachLoop(loop));
    EXPECT_TRUE(NoLoopOver(image));
    ASSERT_EQ(::unlink(image.c_str()), 0);
  }
};

TEST_F(DirectIoTest, IsUsedWhereTheFilesystemKeepsNoChecksumsOfData) {
  for (const char* type : {"ext4", "xfs", "btrfs"}) {
    const std::string pool = Path(std::string("pool-") + type);
    ASSERT_OK(mounter_.Mount(MountOf(ImageOf(type, std::string(type) + ".img"), pool, type)));
    Expect(std::string(type) != "btrfs", pool);
    if (std::string(type) == "btrfs") Expect(true, pool, "chattr +C");
  }
}

TEST_F(DirectIoTest, IsNotUsedOnTmpfsAndOverlay) {
  ASSERT_EQ(Tool("mount -t tmpfs none " + Dir("memory")), 0);
  Expect(false, Path("memory"));
  for (const char* name : {"memory/upper", "memory/work", "memory/lower"}) Dir(name);
  ASSERT_EQ(Tool(fmt::format("mount -t overlay none -o lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work {1}",
                             Path("memory"), Dir("overlay"))),
            0);
  Expect(false, Path("overlay"));
}

}  // namespace
}  // namespace mooring::testing
