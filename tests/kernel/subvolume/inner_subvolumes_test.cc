// Subvolumes that a task has made so that they are hard to delete.
#include <linux/btrfs.h>
#include <sys/ioctl.h>

#include "tests/kernel/subvolume/subvolume_fixture.h"

namespace mooring::testing {
namespace {

constexpr int kOpen = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

class InnerSubvolumesTest : public SubvolumeTest {
 protected:
  // Opens the directory this many levels below, which it makes.
  static UniqueFd Below(const UniqueFd& directory, int levels, const std::string& name) {
    UniqueFd at(::openat(directory.get(), ".", kOpen));
    for (int level = 0; level < levels; ++level) {
      EXPECT_EQ(::mkdirat(at.get(), name.c_str(), 0755), 0);
      at = UniqueFd(::openat(at.get(), name.c_str(), kOpen));
    }
    EXPECT_TRUE(at.ok());
    return at;
  }
  static UniqueFd InnerOf(const UniqueFd& directory, const std::string& name) {
    btrfs_ioctl_vol_args_v2 args = {};
    name.copy(args.name, name.size());
    EXPECT_EQ(::ioctl(directory.get(), BTRFS_IOC_SUBVOL_CREATE_V2, &args), 0);
    return UniqueFd(::openat(directory.get(), name.c_str(), kOpen));
  }
  static void MakeReadOnly(const UniqueFd& subvolume) {
    const std::uint64_t flags = BTRFS_SUBVOL_RDONLY;
    EXPECT_EQ(::ioctl(subvolume.get(), BTRFS_IOC_SUBVOL_SETFLAGS, &flags), 0);
  }
  void ExpectRemoved(const std::string& volume, const std::string& groups_before) {
    EXPECT_OK(mounter_.RemoveSubvolume(volume));
    EXPECT_THAT(EntriesOfPool(), IsEmpty());
    EXPECT_TRUE(Eventually([&] { return mounter_.PrepareSubvolumes(Path("pool")).ok() && Groups() == groups_before; }))
        << Groups();
  }
};

// The kernel has no path for them: PATH_MAX is 4096.
TEST_F(InnerSubvolumesTest, SubvolumesWhosePathIsTooLongAreDeleted) {
  const std::string before = Groups(), volume = Made('a', 256 * kMiB), longest(255, 'l');
  {
    const UniqueFd root(::open(volume.c_str(), kOpen));
    const UniqueFd directory = Below(root, 17, longest);
    const UniqueFd inner = InnerOf(directory, longest), deep = InnerOf(Below(inner, 200, "d"), "deep");
    const UniqueFd deepest = InnerOf(Below(deep, 20, longest), longest);
    InnerOf(deepest, "moved-0");
    MakeReadOnly(deep);
    ASSERT_EQ(::mkdirat(root.get(), "moved-0", 0755), 0);
  }
  ExpectRemoved(volume, before);
}

// A chain of subvolumes: the path of each ends in that of the next.
TEST_F(InnerSubvolumesTest, ManySubvolumesInsideEachOtherAreDeleted) {
  const std::string before = Groups(), volume = Made('a', 256 * kMiB);
  {
    UniqueFd at(::open(volume.c_str(), kOpen));
    for (int level = 0; level < 300; ++level) at = InnerOf(at, std::string(100, 'n'));
  }
  ExpectRemoved(volume, before);
}

TEST_F(InnerSubvolumesTest, ReadOnlySubvolumesWithOthersInsideAreDeleted) {
  const std::string before = Groups(), volume = GivenToTenant(Made('a'));
  ASSERT_EQ(AsTenant(fmt::format("cd {} && mkdir d && btrfs -q subvolume create d/outer && btrfs -q subvolume create "
                                 "d/outer/inner && btrfs property set d/outer ro true && btrfs property set . ro true",
                                 volume)),
            0);
  ExpectRemoved(volume, before);
}

TEST_F(InnerSubvolumesTest, ASubvolumeThatATenantHasLimitedItselfIsDeleted) {
  const std::string before = Groups(), volume = GivenToTenant(Made('a'));
  ASSERT_TRUE(TenantMakes(volume, "inner", GroupNumberOf(NameOfVolume('a')), kMiB));
  ASSERT_EQ(AsTenant(fmt::format("btrfs -q subvolume create {}/inner0/deep", volume)), 0);
  EXPECT_FALSE(Fits(volume + "/inner0/file", 2));
  ExpectRemoved(volume, before);
}

// By data, and by what a task makes outside of its size.
TEST_F(InnerSubvolumesTest, AVolumeIsDeletedInAFullPool) {
  const std::string volume = Made('a', 0);
  EXPECT_NE(Tool("head -c 1G /dev/zero > " + volume + "/file 2>/dev/null; sync -f " + volume), -1);
  {
    const UniqueFd root(::open(volume.c_str(), kOpen));
    btrfs_ioctl_vol_args_v2 args = {};
    for (int number = 0, fails = 0; fails < 100; ++number) {
      fmt::format_to_n(args.name, sizeof(args.name) - 1, "{}", number);
      fails += ::ioctl(root.get(), BTRFS_IOC_SUBVOL_CREATE_V2, &args) == 0 ? 0 : 1;
    }
    EXPECT_EQ(errno, ENOSPC);
  }
  EXPECT_OK(mounter_.RemoveSubvolume(volume));
  EXPECT_THAT(EntriesOfPool(), IsEmpty());
}

// A directory of a pool that enforces no size, on a btrfs.
TEST_F(InnerSubvolumesTest, TheContentOfADirectoryOnABtrfsIsRemoved) {
  const std::string directory = GivenToTenant(Dir("pool/directory"));
  {
    const UniqueFd top(::open(directory.c_str(), kOpen));
    const UniqueFd inner = InnerOf(Below(top, 20, "d"), "inner"), bottom = Below(inner, 40, "d"),
                   deep = InnerOf(bottom, "deep");
    Below(InnerOf(Below(deep, 40, "d"), "deepest"), 40, "d");
    MakeReadOnly(deep);
    MakeReadOnly(inner);
  }
  EXPECT_OK(mounter_.RemoveTree(directory));
  EXPECT_THAT(EntriesOfPool(), IsEmpty());
}

}  // namespace
}  // namespace mooring::testing
