// Mounter::IsInUse: whether a block device has an exclusive user, of whatever kind and in whatever mount namespace.
#include <linux/blkpg.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include "mounter/loop/loop_mounted.h"
#include "tests/kernel/kernel_test.h"
#include "tests/support/squashfs.h"

namespace mooring::testing {
namespace {

class DeviceUseTest : public KernelTest {
 protected:
  static std::string Name(const std::string& device) { return std::filesystem::path(device).filename(); }

  // Mounts it in a namespace that this one shares nothing with.
  std::string MountIn(const MountNamespace& other, const std::string& device, const char* fs_type) const {
    return other.Ask([&] {
      const int status = ::mount(device.c_str(), Path("there").c_str(), fs_type, MS_RDONLY, nullptr);
      return status == 0 ? std::string("mounted") : fmt::format("errno {}", errno);
    });
  }
};

TEST_F(DeviceUseTest, MountsOfAnyTypeInAnyNamespaceAreSeen) {
  Dir("there");
  const std::string squashfs = Losetup(File("squashfs", SquashfsWith("file", "text")));
  const std::string ext4 = Losetup(Ext4Image("ext4"));
  for (const auto& [device, type] : {std::pair(squashfs, "squashfs"), std::pair(ext4, "ext4")}) {
    EXPECT_FALSE(mounter_.IsInUse(device).value()) << type;
    {
      const MountNamespace other(MountNamespace::Kind::kPrivate);
      ASSERT_EQ(MountIn(other, device, type), "mounted") << type;
      EXPECT_THAT(MountsBelow(Path("there")), IsEmpty());
      EXPECT_TRUE(mounter_.IsInUse(device).value()) << type;
      EXPECT_EQ(IsMountedAnywhere(Name(device)).value(), std::string(type) == "ext4") << "sysfs shows few types";
    }
    EXPECT_TRUE(Eventually([&] { return !mounter_.IsInUse(device).value(); })) << type;
  }
}

TEST_F(DeviceUseTest, APartitionCountsForItsDiskAndADiskForItsPartition) {
  Dir("there");
  const std::string disk = Losetup(Sparse("disk", 16 * kMiB));
  const std::string partition = Path("partition");  // a node of the test: udev may make none
  blkpg_partition part = {};
  part.start = static_cast<long long>(kMiB);
  part.length = static_cast<long long>(8 * kMiB);
  part.pno = 1;
  blkpg_ioctl_arg change = {BLKPG_ADD_PARTITION, 0, sizeof(part), &part};
  const UniqueFd fd(::open(disk.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::ioctl(fd.get(), BLKPG, &change), 0);
  unsigned major = 0, minor = 0;
  const std::string number = ReadFile(fmt::format("/sys/class/block/{}p1/dev", Name(disk)));
  ASSERT_EQ(std::sscanf(number.c_str(), "%u:%u", &major, &minor), 2);
  ASSERT_EQ(::mknod(partition.c_str(), S_IFBLK | 0600, makedev(major, minor)), 0);
  Overwrite(partition, 0, SquashfsWith("file", "text"));
  EXPECT_FALSE(mounter_.IsInUse(disk).value());
  EXPECT_FALSE(mounter_.IsInUse(partition).value());
  {
    const MountNamespace other(MountNamespace::Kind::kPrivate);
    ASSERT_EQ(MountIn(other, partition, "squashfs"), "mounted");
    EXPECT_TRUE(mounter_.IsInUse(disk).value());
    EXPECT_TRUE(mounter_.IsInUse(partition).value());
  }
  EXPECT_TRUE(Eventually([&] { return !mounter_.IsInUse(disk).value(); }));
  {
    const UniqueFd claim(::open(disk.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    ASSERT_TRUE(claim.ok());
    EXPECT_TRUE(mounter_.IsInUse(partition).value());
  }
  change.op = BLKPG_DEL_PARTITION;
  EXPECT_EQ(::ioctl(fd.get(), BLKPG, &change), 0);
}

TEST_F(DeviceUseTest, AShortClaimAndAnOrdinaryReaderAreNoUse) {
  const std::string device = Losetup(Ext4Image("image"));
  const UniqueFd reader(::open(device.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(mounter_.IsInUse(device).value());
  UniqueFd claim(::open(device.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  ASSERT_TRUE(claim.ok());
  std::thread udev([&claim] {
    std::this_thread::sleep_for(milliseconds(20));
    claim.reset();
  });
  EXPECT_FALSE(mounter_.IsInUse(device).value());
  udev.join();
  EXPECT_THAT(mounter_.IsInUse(Path("image")).status(), Refused("is no block device"));
}

}  // namespace
}  // namespace mooring::testing
