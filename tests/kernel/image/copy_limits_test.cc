// Limits of copies: the time of a freeze, constant writers, a full pool, and the speed of sparse images.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <limits>

#include "mounter/copy/copy_data.h"
#include "mounter/copy/copy_instant.h"
#include "mounter/copy/freeze.h"
#include "tests/kernel/image/copy_test.h"

namespace mooring::testing {
namespace {

std::int64_t MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

class FreezeTest : public CopyTest {
 protected:
  // Returns when the file that `copy` makes has so many bytes, or when it has ended.
  void AwaitCopied(const std::string& name, std::uint64_t bytes, const std::future<absl::Status>& copy) const {
    const auto copied = [&] {
      std::uint64_t sum = 0;
      for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(Path("pool"))) {
        struct stat status = {};
        const bool is_copy = entry.path().filename().string().starts_with(name);
        if (is_copy && ::stat(entry.path().c_str(), &status) == 0) sum += static_cast<std::uint64_t>(status.st_blocks);
      }
      return sum * 512;
    };
    while (copied() < bytes && copy.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) continue;
  }
};

// The writer goes on while the data is copied.
TEST_F(FreezeTest, IsFarShorterThanTheCopyWhereNothingIsShared) {
  MakePool("ext4", 3072 * kMiB);
  Volume("v", "ext4", 1200 * kMiB);
  const std::string place = MountCopy("v", "ext4");
  ASSERT_EQ(Tool(fmt::format("head -c 700M /dev/urandom > {0}/data && sync -f {0}", place)), 0);
  SequenceWriter writer({place});
  writer.AwaitNext();
  const auto start = Clock::now();
  auto copy = std::async(std::launch::async, [&] { return mounter_.Copy({CopyOf("v", "snap")}); });
  AwaitCopied("snap", 100 * kMiB, copy);
  const std::uint64_t before = writer.written();
  AwaitCopied("snap", 600 * kMiB, copy);
  const std::uint64_t meanwhile = writer.written() - before;
  ASSERT_OK(copy.get());
  const std::int64_t took = MillisecondsSince(start);
  writer.AwaitNext();
  writer.Stop();
  std::printf("a copy of 700 MiB on ext4: %ld ms; writes from 100 to 600 MiB: %lu, the longest %ld ms\n", took,
              meanwhile, writer.longest().count());
  EXPECT_GE(meanwhile, 2U) << "one may have been under way";
  EXPECT_TRUE(IsClean(Pooled("snap"), "ext4"));
}

// A pool that is full: metadata whose blocks the image does not have yet cannot be written. xfs repeats that for ever,
// and a freeze waits for it.
class FullPoolTest : public CopyTest {
 protected:
  void SetUp() override {
    Dir("pool");
    ASSERT_EQ(::mount("none", Path("pool").c_str(), "tmpfs", 0, "size=160m"), 0);
    place_ = Mounted("v", "xfs");
  }
  void Fill() const { Tool(fmt::format("dd if=/dev/zero of={} bs=64k 2> /dev/null", Path("pool/filler"))); }
  void MakeRoom() const { ::unlink(Path("pool/filler").c_str()); }

  std::string place_;
};

TEST_F(FullPoolTest, AFreezeOfXfsEndsAlthoughItsMetadataCannotBeWritten) {
  Fill();
  ASSERT_EQ(Tool(fmt::format("for i in $(seq 3000); do : > {0}/$i; done; sync -f {0}", place_)), 0);
  const auto loops = mounter_.FindLoops(Pooled("v"));
  ASSERT_OK(loops);
  const auto superblock = Superblock::Open(loops->at(0), "xfs");
  ASSERT_OK(superblock);
  std::vector<int> limits;
  for (const UniqueFd& limit : (*superblock)->retry_limits()) limits.push_back(limit.get());
  const auto guard = ThawGuard::Start({(*superblock)->root()}, limits, std::chrono::seconds(1));
  ASSERT_OK(guard);
  auto freeze = std::async(std::launch::async, [&] { return (*superblock)->Freeze(); });
  const bool ended = freeze.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  EXPECT_TRUE(ended) << "the freeze hangs";
  MakeRoom();  // a freeze that hangs cannot be killed: this ends it
  freeze.wait();
  (*superblock)->ThawFully().IgnoreError();
}

// The guard lowers them once a freeze takes long. Either it or the process that it guards sets them back.
class RetryLimitTest : public FullPoolTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    FullPoolTest::SetUp();
    const auto loops = mounter_.FindLoops(Pooled("v"));
    ASSERT_OK(loops);
    loop_ = loops->at(0);
    ASSERT_EQ(Tool("echo 17 > " + Limit("EIO")), 0);
  }
  std::string Limit(const char* error) const {
    return fmt::format("/sys/fs/xfs/{}/error/metadata/{}/max_retries", loop_.device.substr(5), error);
  }
  bool AreAll(const std::string& eio, const std::string& others) const {
    return ReadFile(Limit("EIO")) == eio && ReadFile(Limit("ENOSPC")) == others && ReadFile(Limit("default")) == others;
  }
  absl::StatusOr<std::unique_ptr<ThawGuard>> StartGuard(const Superblock& superblock) {
    std::vector<int> limits;
    for (const UniqueFd& limit : superblock.retry_limits()) limits.push_back(limit.get());
    return ThawGuard::Start({superblock.root()}, limits, std::chrono::milliseconds(100));
  }
  [[noreturn]] void GuardUntilKilled() {
    const auto superblock = Superblock::Open(loop_, "xfs");
    const auto guard = superblock.ok() ? StartGuard(**superblock) : superblock.status();
    if (guard.ok()) ::pause();
    ::_exit(1);
  }

  LoopInfo loop_;
};

INSTANTIATE_TEST_SUITE_P(Process, RetryLimitTest, ::testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "IsKilled" : "Lives"; });

TEST_P(RetryLimitTest, IsAsBeforeAfterASlowFreeze) {
  const auto superblock = Superblock::Open(loop_, "xfs");
  ASSERT_OK(superblock);
  std::unique_ptr<ThawGuard> guard;
  pid_t process = 0;
  if (GetParam()) {
    process = ::fork();
    if (process == 0) GuardUntilKilled();
  } else {
    guard = *StartGuard(**superblock);
  }
  EXPECT_TRUE(Eventually([this] { return AreAll("3\n", "3\n"); })) << "the guard does nothing";
  if (process > 0) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  guard.reset();
  EXPECT_TRUE(Eventually([this] { return AreAll("17\n", "-1\n"); }))
      << ReadFile(Limit("EIO")) << ReadFile(Limit("ENOSPC")) << ReadFile(Limit("default"));
}

// A slow disk can stop the writers for a whole pass. A copy that is made then is right, so another one is tried.
absl::Status CopyUntilRefused(Mounter& mounter, const std::vector<ImageCopy>& copies) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    if (absl::Status refused = mounter.Copy(copies); !refused.ok()) return refused;
    for (const ImageCopy& copy : copies) EXPECT_EQ(::unlink(copy.destination.c_str()), 0) << copy.destination;
  }
  return absl::OkStatus();
}

TEST_F(FreezeTest, ConstantWritesToBlockDevicesAreRefusedWithAdvice) {
  MakePool("ext4", 3072 * kMiB);
  std::vector<std::string> devices;
  for (const char* name : {"v", "w"}) {
    Sparse(fmt::format("pool/{}.img", name), 400 * kMiB);
    devices.push_back(mounter_.AttachLoop({Pooled(name), "mooring-kernel-test", false})->device);
    ASSERT_EQ(Tool(fmt::format("head -c 300M /dev/urandom > {0} && sync {0}", devices.back())), 0);
  }
  const DeviceWriter writer(devices, std::chrono::minutes(5)), another(devices, std::chrono::minutes(5));
  EXPECT_THAT(CopyUntilRefused(mounter_, {CopyOf("v", "a")}), Refused("pause the writer"));
  EXPECT_THAT(CopyUntilRefused(mounter_, {CopyOf("v", "a"), CopyOf("w", "b")}), Refused("copy the volumes one by one"));
  EXPECT_THAT(FilesOfPool(), ElementsAre("v.img", "w.img"));
}

TEST_F(FreezeTest, AnOldCopyBecomesEqualAndGetsTheHolesOfItsSource) {
  MakePool("ext4");
  Sparse("pool/from.img", 64 * kMiB);
  Overwrite(Pooled("from"), 0, std::string(8 * kMiB, 'a'));
  Overwrite(Pooled("from"), 20 * kMiB, std::string(3 * kMiB, 'b'));
  ASSERT_EQ(Tool(fmt::format("cp --sparse=always {} {}", Pooled("from"), Pooled("to"))), 0);
  Overwrite(Pooled("from"), 21 * kMiB + 5, "changed");
  Overwrite(Pooled("from"), 40 * kMiB, "new");
  ASSERT_EQ(Tool(fmt::format("fallocate -p -o {} -l {} {}", kMiB, 4 * kMiB, Pooled("from"))), 0);
  const UniqueFd from(::open(Pooled("from").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd to(::open(Pooled("to").c_str(), O_RDWR | O_CLOEXEC));
  const auto bytes = static_cast<off_t>(64 * kMiB);
  EXPECT_THAT(CopyChanges(from, to, bytes, "from", Clock::now()).status(),
              FailsWith(StatusCode::kDeadlineExceeded, "too long"));
  const auto changed = CopyChanges(from, to, bytes, "from", Clock::time_point::max());
  ASSERT_OK(changed);
  EXPECT_GE(*changed, 4 * kMiB);
  EXPECT_LE(*changed, 5 * kMiB);
  EXPECT_EQ(Tool(fmt::format("cmp {} {}", Pooled("from"), Pooled("to"))), 0);
  EXPECT_LE(AllocatedBytes(Pooled("to")), AllocatedBytes(Pooled("from")));
  EXPECT_EQ(*CopyChanges(from, to, bytes, "from", Clock::time_point::max()), 0U);
}

class FullPoolCopyTest : public CopyTest {};

TEST_F(FullPoolCopyTest, FullPoolLeavesNoFileAndNoFreeze) {
  MakePool("ext4", 256 * kMiB);
  const std::string place = Mounted("v", "ext4");
  ASSERT_EQ(Tool("head -c 150M /dev/urandom > " + place + "/data && sync -f " + place), 0);
  EXPECT_THAT(mounter_.Copy({CopyOf("v", "snap")}), FailsWith(StatusCode::kResourceExhausted, "make room"));
  EXPECT_THAT(FilesOfPool(), ElementsAre("v.img"));
  EXPECT_EQ(TryWrite(place + "/file", "text"), 0);
}

class SparseCopyTest : public CopyTest, public ::testing::WithParamInterface<const char*> {};

// The quickest of several copies of data that is not in the page cache, as after direct I/O of a loop device.
std::int64_t Quickest(const std::string& source, const std::string& made, const std::function<void()>& make) {
  std::int64_t quickest = std::numeric_limits<std::int64_t>::max();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Run(fmt::format("sync {0} && dd if={0} iflag=nocache count=0 2>/dev/null", source)), 0);
    const auto start = Clock::now();
    make();
    quickest = std::min(quickest, MillisecondsSince(start));
    EXPECT_EQ(::unlink(made.c_str()), 0);
  }
  return quickest;
}

TEST_P(SparseCopyTest, TenGibibytesWithAHundredMebibytesOfData) {
  MakePool(GetParam(), 4096 * kMiB);
  Volume("v", "ext4", 10240 * kMiB);
  const std::string place = MountCopy("v", "ext4"), plain = Path("pool/plain"), plain2 = Path("pool/plain2");
  ASSERT_EQ(Tool(fmt::format("head -c 100M /dev/urandom > {0} && cp {0} {1}/data && sync -f {1}", plain, place)), 0);
  const bool shares = std::string(GetParam()) == "xfs";
  const auto free_bytes = [&] { return std::filesystem::space(Path("pool")).free; };
  const std::int64_t took = Quickest(Pooled("v"), Pooled("snap"), [&] {
    const std::uintmax_t before = free_bytes();
    EXPECT_OK(mounter_.Copy({CopyOf("v", "snap")}));
    EXPECT_EQ(before - free_bytes() < 10 * kMiB, shares) << "a copy takes no room where extents are shared";
    EXPECT_LE(AllocatedBytes(Pooled("snap")), AllocatedBytes(Pooled("v")));
  });
  const std::int64_t cp = Quickest(
      plain, plain2, [&] { EXPECT_EQ(Tool(fmt::format("cp --reflink=never {0} {1} && sync {1}", plain, plain2)), 0); });
  std::printf("10 GiB with 100 MiB of data on %s: %ld ms; cp and sync of 100 MiB: %ld ms\n", GetParam(), took, cp);
  EXPECT_LE(took, 5 * cp + 1000);  // on a busy machine. 10 GiB would take a hundred times as long as cp
}

INSTANTIATE_TEST_SUITE_P(Pools, SparseCopyTest, ::testing::Values("xfs", "ext4"),
                         [](const auto& pool) { return std::string(pool.param); });

}  // namespace
}  // namespace mooring::testing
