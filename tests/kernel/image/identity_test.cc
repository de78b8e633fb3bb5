// RenewIdentity: a copy of a filesystem is mounted beside its source, and has the same contents.
#include "mounter/filesystem/identity.h"

#include <set>

#include "tests/kernel/kernel_test.h"
#include "tests/support/hold_image.h"

namespace mooring::testing {
namespace {

// The place of the UUID in each superblock.
std::string UuidIn(const std::string& image, const std::string& fs_type) {
  const std::size_t at = fs_type == "ext4" ? 1024 + 0x68 : fs_type == "xfs" ? 32 : 65536 + 32;
  return ReadFile(image).substr(at, 16);
}

class RenewTest : public KernelTest {
 protected:
  // The open file with its lock, as NewFile holds it.
  absl::Status Renew(const std::string& image, const std::string& fs_type) {
    const UniqueFd held = HoldImage(image);
    return RenewIdentity(image, fs_type, held);
  }
};

class IdentityTest : public RenewTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    source_ = ImageOf(type(), "source");
    ASSERT_OK(mounter_.Mount(MountOf(source_, Path("mounted"), type())));
    ASSERT_EQ(Tool(fmt::format("head -c 5000000 /dev/urandom > {0}/data && mkdir {0}/d && for i in $(seq 200); do "
                               "echo $i > {0}/d/file-$i; done && sync -f {0}/data",
                               Path("mounted"))),
              0);
  }
  static std::string type() { return GetParam(); }
  std::string Copy(const std::string& name) {
    EXPECT_EQ(Tool(fmt::format("cp --sparse=always {} {}", source_, Path(name))), 0);
    return Path(name);
  }
  void Unmount(const std::string& name) {
    ASSERT_OK(mounter_.Unmount(UnmountOf(Path(name))));
    ASSERT_TRUE(NoLoopOver(source_));
  }
  // Mounts the copy beside its mounted source, writes to it, unmounts it, and checks that it is clean.
  void ExpectAnother(const std::string& image, const std::string& place) {
    EXPECT_NE(UuidIn(image, type()), UuidIn(source_, type()));
    ASSERT_OK(mounter_.Mount(MountOf(image, Path(place), type())));
    EXPECT_EQ(Tool(fmt::format("diff -r {} {}", Path("mounted"), Path(place))), 0);
    EXPECT_EQ(TryWrite(Path(place + "/more"), "more"), 0);
    EXPECT_FALSE(Exists(Path("mounted/more")));
  }
  void ExpectClean(const std::string& image, const std::string& place) {
    ASSERT_OK(mounter_.Unmount(UnmountOf(Path(place))));
    ASSERT_TRUE(NoLoopOver(image));
    EXPECT_TRUE(IsClean(image, type()));
  }
  std::string source_;
};

TEST_P(IdentityTest, CopyOfAnUnmountedOneIsMountedBesideIt) {
  Unmount("mounted");
  const std::string copy = Copy("copy");
  ASSERT_OK(Renew(copy, type()));
  EXPECT_TRUE(IsClean(copy, type()));
  ASSERT_OK(mounter_.Mount(MountOf(source_, Path("mounted"), type())));
  ExpectAnother(copy, "beside");
  ExpectClean(copy, "beside");
}

TEST_P(IdentityTest, CopyOfAFrozenOneIsMountedBesideIt) {
  ASSERT_EQ(Tool("fsfreeze -f " + Path("mounted")), 0);
  const std::string copy = Copy("copy");
  ASSERT_EQ(Tool("fsfreeze -u " + Path("mounted")), 0);
  ASSERT_OK(Renew(copy, type()));
  EXPECT_TRUE(NoLoopOver(copy));
  ExpectAnother(copy, "beside");
  ExpectClean(copy, "beside");
}

// The data of fsync(2) is in the journal only.
TEST_P(IdentityTest, CopyAfterAPowerCutKeepsWhatWasSynced) {
  ASSERT_EQ(Tool(fmt::format("cd {} && echo synced > synced && sync synced", Path("mounted"))), 0);
  const std::string copy = Copy("copy");
  ASSERT_OK(Renew(copy, type()));
  ExpectAnother(copy, "beside");
  EXPECT_EQ(ReadFile(Path("beside/synced")), "synced\n");
  ExpectClean(copy, "beside");
}

TEST_P(IdentityTest, CopiesOfCopiesAreAllMountedAtOnce) {
  Unmount("mounted");
  const std::string copy = Copy("copy"), other = Copy("other");
  ASSERT_OK(Renew(copy, type()));
  ASSERT_OK(Renew(other, type()));
  ASSERT_EQ(Tool(fmt::format("cp --sparse=always {} {}", copy, Path("third"))), 0);
  ASSERT_OK(Renew(Path("third"), type()));
  EXPECT_EQ(std::set<std::string>(
                {UuidIn(source_, type()), UuidIn(copy, type()), UuidIn(other, type()), UuidIn(Path("third"), type())})
                .size(),
            4U);
  ASSERT_OK(mounter_.Mount(MountOf(copy, Path("1"), type())));  // these before their source
  ASSERT_OK(mounter_.Mount(MountOf(Path("third"), Path("3"), type())));
  ASSERT_OK(mounter_.Mount(MountOf(source_, Path("mounted"), type())));
  ExpectAnother(other, "2");
  EXPECT_EQ(Tool(fmt::format("diff -r {} {} && diff -r {} {}", Path("mounted"), Path("1"), Path("1"), Path("3"))), 0);
  ExpectClean(copy, "1");
  ExpectClean(other, "2");
  ExpectClean(Path("third"), "3");
}

TEST_P(IdentityTest, OneWithoutASuperblockIsRefused) {
  Unmount("mounted");
  Overwrite(source_, 0, std::string(kMiB, '\1'));
  EXPECT_THAT(Renew(source_, type()), Refused(source_));
}

INSTANTIATE_TEST_SUITE_P(Filesystems, IdentityTest, ::testing::Values("ext4", "xfs", "btrfs"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_F(RenewTest, OfAnUnknownTypeIsRefused) {
  EXPECT_THAT(Renew(Sparse("image", kMiB), "ntfs"), FailsWith(StatusCode::kInvalidArgument, "ntfs"));
}

// Also one made without metadata_csum_seed.
TEST_F(RenewTest, OfAnExt4WritesItsSuperblocksOnly) {
  const std::string image = Ext4Image("image", 256 * kMiB);
  ASSERT_EQ(Tool("cp --sparse=always " + image + " " + Path("before")), 0);
  ASSERT_OK(Renew(image, "ext4"));
  EXPECT_EQ(Tool(fmt::format("test $(cmp -l {} {} | wc -l) -lt 300", image, Path("before"))), 0);
  EXPECT_TRUE(IsClean(image, "ext4"));
}

TEST_F(RenewTest, OfAnExt4WithErrorsIsRefused) {
  const std::string image = Ext4Image("image");
  ASSERT_EQ(Tool("debugfs -w -R 'clri <2>' " + image + " 2>/dev/null"), 0);  // the root directory
  ASSERT_EQ(Tool("debugfs -w -R 'set_super_value state 3' " + image + " 2>/dev/null"), 0);
  EXPECT_THAT(Renew(image, "ext4"), Refused("e2fsck"));
}

TEST_F(RenewTest, OfABtrfsWithADamagedSuperblockIsRefused) {
  const std::string image = BtrfsImage("image");
  Overwrite(image, 65536 + 80, "x");
  EXPECT_THAT(Renew(image, "btrfs"), Refused("checksum"));
}

TEST_F(RenewTest, OfABtrfsOnSeveralDevicesOrWithOtherChecksumsIsRefused) {
  const std::string one = Sparse("one", 128 * kMiB), two = Sparse("two", 128 * kMiB);
  ASSERT_EQ(Tool(fmt::format("mkfs.btrfs -q -K {} {} >/dev/null 2>&1", one, two)), 0);
  EXPECT_THAT(Renew(one, "btrfs"), Refused("on 2 devices"));
  ASSERT_EQ(Tool("mkfs.btrfs -q -K -f --csum xxhash " + one + " >/dev/null 2>&1"), 0);
  EXPECT_THAT(Renew(one, "btrfs"), Refused("crc32c"));
}

TEST_F(RenewTest, OfAnExt4WithoutChecksums) {
  const std::string image = Sparse("image", 32 * kMiB);
  ASSERT_EQ(Tool("mkfs.ext4 -q -F -O ^metadata_csum " + image), 0);
  const std::string before = UuidIn(image, "ext4");
  ASSERT_OK(Renew(image, "ext4"));
  EXPECT_NE(UuidIn(image, "ext4"), before);
  EXPECT_TRUE(IsClean(image, "ext4"));
}

TEST_F(RenewTest, ProgramsInheritTheLock) {
  const std::string image = Ext4Image("image");
  PutOnPath("tune2fs", "readlink /proc/self/fd/3 > " + Path("held") + "\nexec /usr/sbin/tune2fs \"$@\"");
  EXPECT_OK(Renew(image, "ext4"));
  EXPECT_EQ(ReadFile(Path("held")), image + "\n");
}

}  // namespace
}  // namespace mooring::testing
