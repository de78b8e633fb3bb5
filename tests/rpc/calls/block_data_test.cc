// Data that tasks wrote to block volumes, and did not sync, is there afterwards.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "tests/rpc/support/helper_processes.h"
#include "tests/rpc/support/rpc_test.h"
#include "tests/support/holders.h"

namespace mooring::testing {
namespace {

constexpr std::size_t kBytes = 3 << 20;

// Bytes that differ from block to block, and from seed to seed.
std::string Pattern(unsigned seed) {
  std::string data(kBytes, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<char>((i >> 12U) * 31 + i * 7 + seed);
  }
  return data;
}

std::string ReadAll(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string data(kBytes, '\0');
  std::size_t have = 0;
  for (ssize_t got = 1; got > 0 && have < kBytes; have += static_cast<std::size_t>(std::max<ssize_t>(got, 0))) {
    got = ::pread(fd.get(), data.data() + have, kBytes - have, static_cast<off_t>(have));
  }
  data.resize(have);
  return data;
}

void WriteUnsynced(const std::string& path, const std::string& data) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(fd.ok()) << path;
  ASSERT_EQ(::pwrite(fd.get(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
}

void WriteByMmap(const std::string& path, const std::string& data) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd.ok()) << path;
  void* const memory = ::mmap(nullptr, data.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  data.copy(static_cast<char*>(memory), data.size());
  ::munmap(memory, data.size());
}

// A process in another mount namespace that has the device open, as a task that was not ended.
class OtherNamespace {
 public:
  explicit OtherNamespace(const std::string& device) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int fd = ::open(device.c_str(), O_RDWR | O_CLOEXEC);
      if (::unshare(CLONE_NEWNS) != 0 || fd < 0) ::_exit(1);
      for (;;) ::pause();
    }
    ::usleep(100'000);
  }
  ~OtherNamespace() { End(); }
  void End() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

class BlockData : public RpcTest {
 protected:
  // All processes of the plugin end, as with their container. Its devices stay.
  void EndContainer() {
    plugin().Kill();
    for (const LoopLine& loop : LoopsHere()) KillHolders(loop.device);
  }
  // Through the node in /dev, as in a container of its own: a target that is open cannot be unmounted.
  static std::string DeviceOf(const std::string& target) {
    return "/dev/loop" + std::to_string(minor(StatOf(target).st_rdev));
  }

  std::string volume_;
};

TEST_F(BlockData, UnsyncedDataIsThereAfterUnstage) {
  const std::vector<std::pair<const char*, std::function<void()>>> between = {
      {"nothing", [] {}},
      {"a kill of the plugin", [this] { Restart(SIGKILL); }},
      {"a stop of the plugin", [this] { Restart(SIGTERM); }},
      {"a kill of the helper", [this] { ::kill(HelperOf(plugin().pid()), SIGKILL); }},
      {"a kill of the holders",
       [this] {
         for (const LoopLine& loop : LoopsHere()) KillHolders(loop.device);
       }},
      {"the end of the container",
       [this] {
         EndContainer();
         Start();
       }},
      {"losetup -D on the host",
       [this] {
         for (const LoopLine& loop : LoopsHere()) {
           if (HasHold(loop.device)) Shell("losetup -d " + HoldOfDevice(loop.device));
           Shell("losetup -d " + loop.device);
         }
       }},
      {"a repeated publish and stage",
       [this] {
         EXPECT_OK(driver().Stage(volume_, Staging(volume_), kSharedBlock));
         EXPECT_OK(driver().Publish(volume_, Staging(volume_), Target("a", volume_), kSharedBlock));
       }},
  };
  unsigned seed = 0;
  for (const auto& [name, happens] : between) {
    for (const auto& write : {WriteUnsynced, WriteByMmap}) {
      SCOPED_TRACE(name);
      const std::string id = volume_ = Created(kSharedBlock);
      StageAndPublish(id, Target("a", id), kSharedBlock);
      const std::string data = Pattern(++seed);
      ASSERT_NO_FATAL_FAILURE(write(Target("a", id), data));
      happens();
      ASSERT_OK(driver().Unpublish(id, Target("a", id)));
      happens();
      ASSERT_OK(driver().Unstage(id, Staging(id)));
      EXPECT_TRUE(ReadAll(Image(id)) == data) << "after OK it is in the file";
      StageAndPublish(id, Target("a", id), kSharedBlock);
      EXPECT_TRUE(ReadAll(Target("a", id)) == data);
      UnpublishAndUnstage(id, Target("a", id));
      EXPECT_OK(driver().Delete(id));
    }
  }
}

TEST_F(BlockData, UnstageFlushesWhileATaskHasTheDeviceOpen) {
  const std::string id = Published(Target("a"), kSharedBlock);
  OtherNamespace task(DeviceOf(Target("a")));
  const std::string data = Pattern(1);
  WriteUnsynced(Target("a"), data);
  UnpublishAndUnstage(id, Target("a"));
  EXPECT_TRUE(ReadAll(Image(id)) == data);
  ASSERT_EQ(LoopsHere().size(), 1U) << "the task has it";
  EXPECT_THAT(driver().Delete(id), FailsWith(Code::kFailedPrecondition, "in use"));
  StageAndPublish(id, Target("b"), kSharedBlock);
  EXPECT_TRUE(ReadAll(Target("b")) == data);
  const std::string later = Pattern(2);
  WriteUnsynced(Target("b"), later);
  UnpublishAndUnstage(id, Target("b"));
  EXPECT_TRUE(ReadAll(Image(id)) == later);
  task.End();
  ExpectNoLoops();
  EXPECT_TRUE(ReadAll(Image(id)) == later);
}

// A task may write until it closes the device, also after the unstage.
TEST_F(BlockData, LastUserOfADetachedDeviceFlushes) {
  const std::string id = Published(Target("a"), kSharedBlock);
  UniqueFd task(::open(DeviceOf(Target("a")).c_str(), O_RDWR | O_CLOEXEC));
  UnpublishAndUnstage(id, Target("a"));
  const std::string data = Pattern(3);
  ASSERT_EQ(::pwrite(task.get(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  task.reset();
  ExpectNoLoops();
  EXPECT_TRUE(ReadAll(Image(id)) == data);
}

// A reader attaches a device of its own, which reads through the writable one.
TEST_F(BlockData, ReaderSeesUnsyncedDataOfTheWriterBefore) {
  const std::string id = Published(Target("rw"), kSharedBlock);
  for (unsigned seed = 0; seed < 3; ++seed) {
    const std::string data = Pattern(seed);
    WriteUnsynced(Target("rw"), data);
    ASSERT_OK(driver().Unpublish(id, Target("rw")));
    ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true));
    EXPECT_TRUE(ReadAll(Target("ro")) == data);
    ASSERT_OK(driver().Unpublish(id, Target("ro")));
    ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), kSharedBlock));
  }
}

TEST_F(BlockData, SnapshotAndCloneHaveUnsyncedData) {
  const std::string id = Published(Target("a"), kSharedBlock);
  const std::string data = Pattern(4);
  WriteUnsynced(Target("a"), data);
  const std::string snapshot = Snapped("snap", id);
  EXPECT_TRUE(ReadAll(Image(snapshot)) == data);
}

// The pool is full, so the kernel cannot write the page cache of the device.
class BlockDataInAFullPool : public BlockData {
 protected:
  void SetUp() override {
    MountTmpfs(state_dir() + "/volumes", "size=64m,mode=700");
    BlockData::SetUp();
  }
  // A volume with data that is only in memory. It is staged, and not published any more.
  std::string WrittenInAFullPool(unsigned seed) {
    const std::string id = Created(kSharedBlock, 20 * kMiB);
    StageAndPublish(id, Target("a"), kSharedBlock);
    Shell("cat /dev/zero >" + ballast_ + " 2>/dev/null");
    WriteUnsynced(Target("a"), Pattern(seed));
    EXPECT_OK(driver().Unpublish(id, Target("a")));
    return id;
  }

  const std::string ballast_ = state_dir() + "/volumes/ballast";
};

// Before a reader's device is attached, and before a copy is made, the kernel or the mounter flushes the writer's
// device.
TEST_F(BlockDataInAFullPool, ReaderOrCopyThatCannotFlushIsRefusedAndLosesNothing) {
  const std::string id = WrittenInAFullPool(6);
  for (int call = 0; call < 2; ++call) {
    const auto refused = driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true);
    EXPECT_THAT(std::string(refused.status.message()), HasSubstr("call again"));
    EXPECT_FALSE(driver().Snap("snap", id).status.ok());
  }
  fs::remove(ballast_);
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), kSharedBlock, true));
  EXPECT_TRUE(ReadAll(Target("ro")) == Pattern(6));
  ASSERT_OK(driver().Unpublish(id, Target("ro")));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_TRUE(ReadAll(Image(id)) == Pattern(6));
}

// The kernel has told the task of the failed write, and tells nobody who opens the device later.
class FailureThatTheTaskWasTold : public BlockDataInAFullPool, public ::testing::WithParamInterface<bool> {};

TEST_P(FailureThatTheTaskWasTold, IsKnownToUnstage) {
  const std::string id = Created(kSharedBlock, 20 * kMiB);
  StageAndPublish(id, Target("a"), kSharedBlock);
  Shell("cat /dev/zero >" + ballast_ + " 2>/dev/null");
  const std::string data = Pattern(7);
  {
    const UniqueFd task(::open(Target("a").c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(task.get(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
    EXPECT_NE(::fsync(task.get()), 0);
  }
  ASSERT_OK(driver().Unpublish(id, Target("a")));
  const auto refused = [&] { return driver().Unstage(id, Staging(id)).status; };
  if (GetParam()) {
    EXPECT_THAT(std::string(refused().message()), HasSubstr("make room")) << "the data is in no file";
  }
  fs::remove(ballast_);
  if (!GetParam()) {
    EXPECT_THAT(std::string(refused().message()), HasSubstr("some may be lost"));
  }
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_TRUE(ReadAll(Image(id)) == data);
}

INSTANTIATE_TEST_SUITE_P(Full, FailureThatTheTaskWasTold, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "StillFull" : "NotAnyMore"; });

// The kernel takes data for clean whose write has failed, and frees its memory when it needs some.
TEST_F(BlockDataInAFullPool, DataThatMemoryHasLostIsTold) {
  const std::string id = WrittenInAFullPool(5);
  Shell("blockdev --flushbufs " + LoopsHere().at(0).device);  // frees the memory, also of what cannot be written
  fs::remove(ballast_);
  EXPECT_THAT(std::string(driver().Unstage(id, Staging(id)).status.message()), HasSubstr("some may be lost"));
  EXPECT_EQ(LoopsHere().size(), 1U) << "it stays attached";
  EXPECT_FALSE(ReadAll(Image(id)) == Pattern(5)) << "then this test shows nothing";
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  ExpectNoLoops();
}

TEST_F(BlockDataInAFullPool, UnstageThatCannotFlushFailsAndKeepsTheDevice) {
  const std::string id = WrittenInAFullPool(5);
  for (int call = 0; call < 3; ++call) {
    const auto refused = driver().Unstage(id, Staging(id));
    EXPECT_FALSE(refused.status.ok()) << "the data is in no file";
    EXPECT_THAT(std::string(refused.status.message()), HasSubstr("call again"));
    EXPECT_EQ(LoopsHere().size(), 1U) << "it stays attached";
  }
  fs::remove(ballast_);
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  ExpectNoLoops();
  EXPECT_TRUE(ReadAll(Image(id)) == Pattern(5)) << "and the call after that writes it";
}

}  // namespace
}  // namespace mooring::testing
