// Devices that keep their cached data: held ones, and those whose cache is older than their file.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mounter/loop/device_holder.h"
#include "mounter/loop/unwritten_pages.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class DeviceHoldTest : public KernelTest {
 protected:
  void SetUp() override { device_ = Losetup(File("disk", std::string(kMiB, 'a'))); }

  std::size_t Holders() const {
    struct stat status = {};
    EXPECT_EQ(::stat(device_.c_str(), &status), 0);
    return HoldersOf(status.st_rdev).value().size();
  }
  std::string device_;
};

TEST_F(DeviceHoldTest, ADeviceHasOneHolderUntilItIsReleased) {
  ASSERT_OK(mounter_.HoldDevice(device_));
  ASSERT_OK(mounter_.HoldDevice(device_));
  EXPECT_EQ(Holders(), 1U);
  EXPECT_FALSE(mounter_.IsInUse(device_).value()) << "it can be formatted and mounted";
  ASSERT_OK(mounter_.ReleaseDevice(device_));
  EXPECT_EQ(Holders(), 0U);
  EXPECT_OK(mounter_.ReleaseDevice(device_));
}

TEST_F(DeviceHoldTest, OnlyABlockDeviceIsHeld) {
  const std::string file = File("file", "text");
  EXPECT_THAT(mounter_.HoldDevice(file), FailsWith(absl::StatusCode::kFailedPrecondition, "is no block device"));
  EXPECT_THAT(mounter_.HoldDevice(Path("missing")), FailsWith(absl::StatusCode::kNotFound, "missing"));
}

// The mapping or filesystem that has claimed the device writes past its cache.
TEST_F(DeviceHoldTest, TheOldCacheOfAClaimedDeviceIsNotWritten) {
  const UniqueFd fd(::open(device_.c_str(), O_RDWR | O_CLOEXEC));
  // Other tests drop all caches, but not what is mapped.
  void* const cached = ::mmap(nullptr, kMiB, PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  ASSERT_NE(cached, MAP_FAILED);
  UniqueFd claim(::open(device_.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  ASSERT_TRUE(claim.ok());
  Overwrite(Path("disk"), 0, "new");
  EXPECT_OK(MakeDirtyAgain(fd.get()));
  EXPECT_EQ(MakeUnwrittenDirty(fd.get()).value(), 0U);
  EXPECT_EQ(MakeSwallowedDirty(fd.get()).value(), 0U);
  ASSERT_EQ(::fsync(fd.get()), 0);
  EXPECT_EQ(ReadFile(Path("disk")).substr(0, 4), "newa");
  claim.reset();
  EXPECT_OK(MakeDirtyAgain(fd.get())) << "without a claim, the cache counts as newer";
  ASSERT_EQ(::fsync(fd.get()), 0);
  EXPECT_EQ(ReadFile(Path("disk")).substr(0, 4), "aaaa");
  ::munmap(cached, kMiB);
}

}  // namespace
}  // namespace mooring::testing
