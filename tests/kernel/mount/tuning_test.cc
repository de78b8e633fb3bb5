// Changes of the read-ahead of devices in use.
#include <sys/mman.h>

#include <algorithm>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

constexpr std::size_t kPage = 4096;

class TuningTest : public KernelTest {
 protected:
  static std::uint64_t ReadAheadOf(const LoopInfo& loop) {
    return std::stoull("0" + ReadFile("/sys/block/" + loop.device.substr(5) + "/queue/read_ahead_kb")) * 1024;
  }
  LoopInfo Mounted(const std::string& image, const std::string& target) {
    EXPECT_OK(mounter_.Mount(MountOf(image, target)));
    const auto loops = mounter_.FindLoops(image);
    EXPECT_OK(loops);
    return loops->empty() ? LoopInfo() : loops->front();
  }
  // Reads the first 64 KiB in order, with an empty page cache.
  static void ReadTheStart(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    std::vector<char> page(kPage);
    for (int i = 0; i < 16; ++i) EXPECT_EQ(::read(fd.get(), page.data(), kPage), static_cast<ssize_t>(kPage));
  }
  static std::size_t Resident(const std::string& path, std::size_t bytes) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    void* const map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    std::vector<unsigned char> resident(bytes / kPage);
    EXPECT_EQ(::mincore(map, bytes, resident.data()), 0);
    ::munmap(map, bytes);
    return kPage * static_cast<std::size_t>(
                       std::count_if(resident.begin(), resident.end(), [](unsigned char c) { return (c & 1U) != 0; }));
  }
};

TEST_F(TuningTest, ReadAheadReachesReadersOfAMountedFilesystem) {
  constexpr std::size_t kBytes = 8 << 20;
  const LoopInfo loop = Mounted(Ext4Image("image"), Path("target"));
  ASSERT_EQ(TryWrite(Path("target/file"), std::string(kBytes, 'x')), 0);
  ASSERT_OK(mounter_.TuneLoop(loop, {.read_ahead_bytes = 16 << 10}));
  EXPECT_EQ(ReadAheadOf(loop), 16U << 10U);
  ReadTheStart(Path("target/file"));
  const std::size_t little = Resident(Path("target/file"), kBytes);
  ASSERT_OK(mounter_.TuneLoop(loop, {.read_ahead_bytes = 4 << 20}));
  ReadTheStart(Path("target/file"));
  EXPECT_LT(little, std::size_t{128} << 10U);
  EXPECT_TRUE(Eventually([&] { return Resident(Path("target/file"), kBytes) > 2 * little; })) << little;
}

TEST_F(TuningTest, MoreReadAheadThanAnyPluginAsksForIsRefused) {
  const LoopInfo loop = Mounted(Ext4Image("image"), Path("target"));
  EXPECT_OK(mounter_.TuneLoop(loop, {.read_ahead_bytes = 64 * kMiB}));
  EXPECT_THAT(mounter_.TuneLoop(loop, {.read_ahead_bytes = 64 * kMiB + 512}),
              FailsWith(StatusCode::kInvalidArgument, "at most"));
  EXPECT_EQ(ReadAheadOf(loop), 64 * kMiB);
}

TEST_F(TuningTest, ReadAheadOfZeroIsTheKernelsDefault) {
  const LoopInfo loop = Mounted(Ext4Image("image"), Path("target"));
  const std::uint64_t before = ReadAheadOf(loop);
  EXPECT_GE(before, 128U << 10U);
  ASSERT_OK(mounter_.TuneLoop(loop, {.read_ahead_bytes = 4096}));
  EXPECT_EQ(ReadAheadOf(loop), 4096U);
  ASSERT_OK(mounter_.TuneLoop(loop, {}));
  EXPECT_EQ(ReadAheadOf(loop), before);
}

// Linux keeps the read-ahead when a device is bound anew.
TEST_F(TuningTest, TheNextFileOfADeviceDoesNotInheritIt) {
  const std::string first = Ext4Image("first"), second = Ext4Image("second");
  const LoopInfo loop = Mounted(first, Path("target"));
  const std::uint64_t before = ReadAheadOf(loop);
  ASSERT_OK(mounter_.TuneLoop(loop, {.read_ahead_bytes = 32 << 20}));
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("target"))));
  ASSERT_TRUE(NoLoopOver(first));
  const LoopInfo next = Mounted(second, Path("target"));
  EXPECT_EQ(next.device, loop.device) << "the test shows nothing where the kernel gives another device";
  EXPECT_EQ(ReadAheadOf(next), before);
}

TEST_F(TuningTest, ADeviceThatIsNoLongerTheFilesIsLeftAlone) {
  const std::string image = Sparse("image", kMiB), other = Sparse("other", kMiB);
  const auto loop = mounter_.AttachLoop({.backing_file = image, .label = "mine"});
  ASSERT_OK(loop);
  Losetup(other);
  LoopInfo stale = mounter_.FindLoops(other)->at(0);
  stale.backing_inode = StatOf(image).st_ino;
  EXPECT_THAT(mounter_.TuneLoop(stale, {.read_ahead_bytes = 4096}),
              FailsWith(StatusCode::kNotFound, "no longer the device"));
  EXPECT_THAT(mounter_.TuneLoop(*loop, {.read_ahead_bytes = 1000}),
              FailsWith(StatusCode::kInvalidArgument, "no number of sectors"));
  ASSERT_OK(mounter_.DetachLoop(*loop));
  ASSERT_TRUE(NoLoopOver(image));
  EXPECT_THAT(mounter_.TuneLoop(*loop, {.read_ahead_bytes = 4096}),
              FailsWith(StatusCode::kNotFound, "no longer the device"));
}

}  // namespace
}  // namespace mooring::testing
