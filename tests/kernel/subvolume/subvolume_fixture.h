// A pool of subvolumes on a real btrfs, and a tenant without privileges.
#pragma once

#include <grp.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "mounter/subvolume/quota.h"
#include "mounter/subvolumes.h"
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

  // A process of a user without privileges makes subvolumes in this group, 0: in none, as the kernel lets it. The names
  // are `name` and a number. `limit`: of each, in bytes; 0: none.
  static pid_t TenantStarts(const std::string& directory, const std::string& name, std::uint64_t group, int count,
                            std::uint64_t limit = 0) {
    std::array<std::uint64_t, sizeof(btrfs_qgroup_inherit) / 8 + 1> inherit = {};
    inherit[0] = limit == 0 ? 0 : BTRFS_QGROUP_INHERIT_SET_LIMITS;
    inherit[1] = group == 0 ? 0 : 1;  // how many
    inherit[4] = limit == 0 ? 0 : BTRFS_QGROUP_LIMIT_MAX_RFER;
    inherit[5] = limit;
    inherit.back() = QuotaGroupId(group);
    btrfs_ioctl_vol_args_v2 args = {};
    args.flags = BTRFS_SUBVOL_QGROUP_INHERIT;
    args.size = (inherit.size() - (group == 0 ? 1 : 0)) * 8;
    args.qgroup_inherit = reinterpret_cast<btrfs_qgroup_inherit*>(inherit.data());
    const pid_t child = ::fork();
    if (child != 0) return child;
    const bool is_tenant =
        ::setgroups(0, nullptr) == 0 && ::setresgid(1000, 1000, 1000) == 0 && ::setresuid(1000, 1000, 1000) == 0;
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool made = is_tenant;
    for (int i = 0; is_tenant && i < count; ++i) {
      std::snprintf(args.name, sizeof(args.name), "%s%d", name.c_str(), i);
      made = ::ioctl(fd, BTRFS_IOC_SUBVOL_CREATE_V2, &args) == 0;
      if (count > 1000) ::usleep(500);  // or it fills the pool
    }
    ::_exit(made ? 0 : 1);
  }
  // Makes <name>0. False: the kernel does not let it.
  static bool TenantMakes(const std::string& directory, const std::string& name, std::uint64_t group,
                          std::uint64_t limit = 0) {
    int status = -1;
    const pid_t child = TenantStarts(directory, name, group, 1, limit);
    return ::waitpid(child, &status, 0) == child && status == 0;
  }

  BtrfsQuotas Quotas() const {
    return *BtrfsQuotas::Of(UniqueFd(::open(Path("pool").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), Path("pool"));
  }
  std::optional<BtrfsQuotas::Group> GroupOf(char digit) const {
    return *Quotas().Find(GroupNumberOf(NameOfVolume(digit)));
  }
  // The transaction that has made the subvolume.
  std::string InstantOf(const std::string& subvolume) const {
    Tool("btrfs subvolume show " + subvolume + " | grep 'Gen at creation' > " + Path("instant"));
    return ReadFile(Path("instant"));
  }
  std::vector<std::string> EntriesOfPool() const {
    std::vector<std::string> names = Entries(Path("pool"));
    std::erase(names, kLockName);
    return names;
  }
  // The groups with their numbers, "0/5 1/2".
  std::string Groups() const {
    Tool("btrfs subvolume sync " + Path("pool") + " >/dev/null");
    Tool("btrfs qgroup show --raw " + Path("pool") + " 2>/dev/null | grep -o '^[0-9]*/[0-9]*' > " + Path("groups"));
    return ReadFile(Path("groups"));
  }
};

}  // namespace mooring::testing
