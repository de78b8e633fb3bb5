// A pool of subvolumes on a real btrfs, and a tenant without privileges.
#pragma once

#include "mounter/subvolume/quota.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {

inline constexpr std::uint64_t kPoolBytes = 768 * kMiB;

// 'a' becomes "vol-aaaa…".
inline std::string NameOfVolume(char digit) { return "vol-" + std::string(32, digit); }

class SubvolumeTest : public KernelTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(::chmod(dir_.path().c_str(), 0711), 0);  // for the tenant
    MountPool();
    if (!KernelHasSimpleQuotas()) {
      EXPECT_THAT(mounter_.PrepareSubvolumes(Path("pool")), Refused("Linux 6.7"));
      GTEST_SKIP() << "this kernel has no simple quotas";
    }
    ASSERT_OK(mounter_.PrepareSubvolumes(Path("pool")));
  }
  void MountPool() {
    Dir("pool");
    ASSERT_EQ(Tool("mount -o loop " + BtrfsImage("pool.img", kPoolBytes) + " " + Path("pool")), 0);
  }

  std::string Volume(char digit) const { return Path("pool/" + NameOfVolume(digit)); }
  std::string Made(char digit, std::uint64_t bytes = 32 * kMiB) {
    EXPECT_OK(mounter_.MakeSubvolumes({{.path = Volume(digit), .bytes = bytes}}));
    return Volume(digit);
  }
  absl::Status Snapshot(const std::string& source, const std::string& name) {
    return mounter_.MakeSubvolumes({{.path = Path("pool/" + name), .source = source, .read_only = true}});
  }

  // Whether this many MiB could be written, by a user without privileges.
  static bool Fits(const std::string& file, int mebibytes) {
    return AsTenant(fmt::format("dd if=/dev/zero of={} bs=1M count={} conv=fsync 2>/dev/null", file, mebibytes)) == 0;
  }
  static int AsTenant(const std::string& command) {
    return Tool("setpriv --reuid 1000 --regid 1000 --clear-groups sh -c '" + command + "' >/dev/null");
  }
  static std::string GivenToTenant(const std::string& volume) {
    EXPECT_EQ(::chown(volume.c_str(), 1000, 1000), 0);
    return volume;
  }

  BtrfsQuotas Quotas() const {
    return *BtrfsQuotas::Of(UniqueFd(::open(Path("pool").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), Path("pool"));
  }
  std::optional<BtrfsQuotas::Group> GroupOf(char digit) const {
    return *Quotas().Find(GroupNumberOf(NameOfVolume(digit)));
  }
  // The groups with their numbers, "0/5 1/2".
  std::string Groups() const {
    Tool("btrfs subvolume sync " + Path("pool") + " >/dev/null");
    Tool("btrfs qgroup show --raw " + Path("pool") + " 2>/dev/null | grep -o '^[0-9]*/[0-9]*' > " + Path("groups"));
    return ReadFile(Path("groups"));
  }
};

}  // namespace mooring::testing
