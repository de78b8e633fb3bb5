// An image has one loop device at most, however many calls mount it, and whatever others left. Two would lose data.
#include <sys/wait.h>

#include <map>
#include <mutex>
#include <set>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class OneDeviceTest : public KernelTest {
 protected:
  void SetUp() override { image_ = Ext4Image("image"); }
  absl::Status Mount(const std::string& name) { return mounter_.Mount(MountOf(image_, Path(name))); }
  absl::Status Unmount(const std::string& name) { return mounter_.Unmount(UnmountOf(Path(name))); }
  std::string image_;
};

TEST_F(OneDeviceTest, ForeignWritableDeviceIsReusedAndGoesWithTheLastMount) {
  const std::string device = Losetup(image_);
  ASSERT_OK(Mount("target"));
  EXPECT_EQ(MountAt(Path("target"))->source, device);
  EXPECT_THAT(LoopsOver(image_), SizeIs(1));
  ASSERT_OK(Unmount("target"));
  EXPECT_TRUE(NoLoopOver(image_));
}

TEST_F(OneDeviceTest, ForeignDeviceIsUnchangedWhereTheMountFails) {
  const std::string device = Losetup(image_);
  EXPECT_FALSE(mounter_.Mount(MountOf(image_, Path("target"), "xfs")).ok());
  const std::vector<LoopInfo> loops = *mounter_.FindLoops(image_);
  ASSERT_THAT(loops, SizeIs(1));
  EXPECT_EQ(loops[0].device, device);
  EXPECT_FALSE(loops[0].auto_clear);
  EXPECT_EQ(loops[0].label, image_) << "losetup's";
}

// A task may still have the device of an earlier use, and could change the filesystem that is mounted.
TEST_F(OneDeviceTest, DeviceThatATaskStillHasIsNotMounted) {
  const LoopInfo before = *mounter_.AttachLoop({.backing_file = image_, .label = "before", .read_only = false});
  EXPECT_THAT(Mount("target"), Refused("in use as a block device through " + before.device));
  UniqueFd user(::open(before.device.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_OK(mounter_.DetachLoop(before));
  EXPECT_THAT(Mount("target"), Refused("in use as a block device through " + before.device));
  user.reset();
  EXPECT_TRUE(NoLoopOver(image_));
  ASSERT_OK(Mount("target"));
  const std::vector<LoopInfo> loops = *mounter_.FindLoops(image_);
  ASSERT_THAT(loops, SizeIs(1));
  EXPECT_EQ(loops[0].label, "mooring-kernel-test");
  EXPECT_TRUE(loops[0].auto_clear);
  ASSERT_OK(Unmount("target"));
  EXPECT_TRUE(NoLoopOver(image_));
}

TEST_F(OneDeviceTest, ForeignReadOnlyDeviceIsRefusedWithAdvice) {
  const std::string device = Losetup("-r " + image_);
  EXPECT_THAT(Mount("target"), Refused("losetup -d " + device));
  EXPECT_THAT(LoopsOver(image_), SizeIs(1)) << "no second one, and the first is not ours to take away";
  EXPECT_FALSE(Exists(Path("target")));
}

TEST_F(OneDeviceTest, ForeignDeviceWithAnOffsetOrSizeLimitIsRefusedWithAdvice) {
  for (const char* how : {"-o 4096 ", "--sizelimit 1048576 "}) {
    const std::string device = Losetup(how + image_);
    EXPECT_THAT(Mount("target"), Refused("losetup -d " + device));
    EXPECT_THAT(LoopsOver(image_), SizeIs(1));
    ASSERT_EQ(Tool("losetup -d " + device), 0);
    ASSERT_TRUE(NoLoopOver(image_));
  }
}

TEST_F(OneDeviceTest, ForeignMountIsShared) {
  ASSERT_EQ(Tool(fmt::format("mount -o loop {} {}", image_, Dir("theirs"))), 0);
  ASSERT_OK(Mount("ours"));
  EXPECT_EQ(StatOf(Path("theirs")).st_dev, StatOf(Path("ours")).st_dev);
  EXPECT_THAT(LoopsOver(image_), SizeIs(1));
}

TEST_F(OneDeviceTest, IsFoundByInodeAfterARename) {
  ASSERT_OK(Mount("a"));
  const std::string renamed = Path("renamed");
  ASSERT_EQ(::rename(image_.c_str(), renamed.c_str()), 0);
  ASSERT_OK(mounter_.Mount(MountOf(renamed, Path("b"))));
  EXPECT_EQ(StatOf(Path("a")).st_dev, StatOf(Path("b")).st_dev);
}

TEST_F(OneDeviceTest, AnImageWithHardLinksIsRefusedByEveryCall) {
  ASSERT_EQ(::link(image_.c_str(), Path("link").c_str()), 0);
  const auto refused = Refused("has 2 names (hard links)");
  for (const std::string& image : {image_, Path("link")}) {
    EXPECT_THAT(mounter_.Mount(MountOf(image, Path("b"))), refused);
    EXPECT_THAT(mounter_.AttachLoop({image, "mooring-kernel-test", false}), refused);
    EXPECT_THAT(mounter_.Format({image, "ext4"}), refused);
    EXPECT_THAT(mounter_.Probe(image), refused);
    EXPECT_THAT(mounter_.Check(image, "ext4"), refused);
    EXPECT_THAT(mounter_.Grow(image, "ext4"), refused);
    EXPECT_THAT(mounter_.Copy({{image, Path("copy"), 64 * kMiB}}), refused);
  }
  EXPECT_FALSE(Exists(Path("b")));
  EXPECT_THAT(LoopsOver(image_), IsEmpty());
  ASSERT_EQ(::unlink(Path("link").c_str()), 0);
  EXPECT_OK(Mount("a"));
}

TEST_F(OneDeviceTest, DirectoriesAndDevicesAreNoImages) {
  ASSERT_EQ(::mkfifo(Path("fifo").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("image", Path("symlink").c_str()), 0);
  for (const std::string& path : {Path("fifo"), Path("symlink"), Dir("directory"), std::string("/dev/null")}) {
    SCOPED_TRACE(path);
    EXPECT_THAT(mounter_.Mount(MountOf(path, Path("b"))), Refused());
    EXPECT_THAT(mounter_.AttachLoop({path, "mooring-kernel-test", false}), Refused());
    EXPECT_THAT(mounter_.Format({path, "ext4"}), Refused());
    EXPECT_THAT(mounter_.Probe(path), Refused());
    EXPECT_THAT(mounter_.Check(path, "ext4"), Refused());
    EXPECT_THAT(mounter_.Grow(path, "ext4"), Refused());
    EXPECT_THAT(mounter_.Copy({{path, Path("copy"), 64 * kMiB}}), Refused());
  }
}

TEST_F(OneDeviceTest, AnotherFileOfTheSameNameIsAnotherImage) {
  ASSERT_OK(Mount("a"));
  ASSERT_EQ(::unlink(image_.c_str()), 0);
  Ext4Image("image");
  ASSERT_OK(Mount("b"));
  EXPECT_NE(StatOf(Path("a")).st_dev, StatOf(Path("b")).st_dev);
}

// Two processes and eight threads, all at once, each to a target of its own.
class CrowdTest : public OneDeviceTest {
 protected:
  static constexpr int kThreads = 8, kProcesses = 2;
  // A child that mounts once `gate` is closed by everybody else.
  pid_t StartProcess(int gate, int gate_writer, const std::string& name) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::alarm(20);
    ::close(gate_writer);
    char byte = 0;
    const bool open = ::read(gate, &byte, 1) == 0;
    ::_exit(open && Mount(name).ok() ? 0 : 1);
  }
  void MountFromEverywhere(const std::string& prefix) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::pipe(ends), 0);
    const UniqueFd gate(ends[0]);
    UniqueFd writer(ends[1]);
    std::vector<pid_t> processes;
    for (int i = 0; i < kProcesses; ++i) {
      processes.push_back(StartProcess(gate.get(), writer.get(), fmt::format("{}process{}", prefix, i)));
    }
    std::vector<std::thread> threads;
    writer.reset();
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { EXPECT_OK(Mount(fmt::format("{}thread{}", prefix, i))); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const pid_t pid : processes) {
      int status = 0;
      ::waitpid(pid, &status, 0);
      EXPECT_EQ(status, 0);
    }
  }
  void UnmountFromEverywhere() {
    std::vector<std::thread> threads;
    for (const MountLine& line : MountsBelow(dir_.path())) {
      threads.emplace_back([&, target = line.target] { EXPECT_OK(mounter_.Unmount(UnmountOf(target))); });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(CrowdTest, MountsOneImageOverOneDevice) {
  for (int round = 0; round < 10; ++round) {
    MountFromEverywhere(fmt::format("round{}-", round));
    EXPECT_THAT(MountsBelow(dir_.path()), SizeIs(kThreads + kProcesses));
    EXPECT_THAT(LoopsOver(image_), SizeIs(1));
    UnmountFromEverywhere();
    EXPECT_TRUE(MountsBelow(dir_.path()).empty());
    EXPECT_TRUE(NoLoopOver(image_));
  }
}

// Two threads for each image. The device goes at the last unmount while the other thread looks for it, and comes back
// over the other image. It is found and held, or made anew. There are never two devices in use over one image, and
// never the device of the other image.
class ChurnTest : public OneDeviceTest {
 protected:
  void SetUp() override {
    for (const std::string name : {"x", "y"}) {
      ASSERT_OK(mounter_.Mount(MountOf(Ext4Image(name), Path("prepare"))));
      ASSERT_EQ(TryWrite(Path("prepare/name"), name), 0);
      ASSERT_OK(mounter_.Unmount(UnmountOf(Path("prepare"), true)));
    }
  }
  void Churn(const std::string& image, const std::string& target, int times) {
    for (int i = 0; i < times && !HasFailure(); ++i) {
      ASSERT_OK(mounter_.Mount(MountOf(Path(image), target)));
      EXPECT_EQ(ReadFile(target + "/name"), image);
      const dev_t device = StatOf(target).st_dev;
      Enter(image, device);
      Leave(image, device);
      ASSERT_OK(mounter_.Unmount(UnmountOf(target)));
    }
  }

 private:
  void Enter(const std::string& image, dev_t device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    in_use_[image].insert(device);
    EXPECT_EQ(in_use_[image].count(device), in_use_[image].size()) << image << " over two devices";
  }
  void Leave(const std::string& image, dev_t device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    in_use_[image].erase(in_use_[image].find(device));
  }
  std::mutex mutex_;
  std::map<std::string, std::multiset<dev_t>> in_use_;  // while mounted
};

TEST_F(ChurnTest, DeviceThatGoesDuringALookUpIsNoError) {
  std::vector<std::thread> threads;
  for (const std::string image : {"x", "y", "x", "y"}) {
    const std::string target = Path("target" + std::to_string(threads.size()));
    threads.emplace_back([this, image, target] { Churn(image, target, 200); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(NoLoopOver(dir_.path()));
}

// Foreign devices that come and go must not make a mount fail either.
TEST_F(OneDeviceTest, ForeignDevicesThatComeAndGoDisturbNoMount) {
  const std::string foreign = Sparse("foreign", kMiB);
  std::atomic<bool> stop = false;
  std::thread others([&] {
    while (!stop) Tool(fmt::format("losetup -d $(losetup --show -f {})", foreign));
  });
  for (int i = 0; i < 60; ++i) {
    EXPECT_OK(Mount("target"));
    EXPECT_OK(Unmount("target"));
  }
  stop = true;
  others.join();
}

}  // namespace
}  // namespace mooring::testing
