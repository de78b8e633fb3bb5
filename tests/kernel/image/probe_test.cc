// Probe identifies the content of an image. "Empty" allows a format, so it is never the answer in doubt.
#include <endian.h>

#include <cstring>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

using Content = FilesystemInfo::Content;

class ProbeTest : public KernelTest {
 protected:
  FilesystemInfo Probe(const std::string& path) {
    const auto info = mounter_.Probe(path);
    EXPECT_OK(info);
    return info.ok() ? *info : FilesystemInfo();
  }
  void ExpectForeign(const std::string& path, const std::string& type) {
    const FilesystemInfo info = Probe(path);
    EXPECT_EQ(info.content, Content::kForeign) << info.type;
    EXPECT_THAT(info.type, HasSubstr(type));
  }
  // An image of written zeroes, with `bytes` at `offset`.
  std::string Written(const std::string& bytes, std::uint64_t offset, std::uint64_t size = 16 * kMiB) {
    File("image", std::string(size, '\0'));
    Overwrite(Path("image"), offset, bytes);
    return Path("image");
  }
};

TEST_F(ProbeTest, SparseFileIsEmpty) {
  const FilesystemInfo info = Probe(Sparse("image", 1024 * kMiB));
  EXPECT_EQ(info.content, Content::kEmpty);
  EXPECT_EQ(info.device_bytes, 1024 * kMiB);
  EXPECT_EQ(info.size_bytes, 0U);
  EXPECT_EQ(info.type, "");
}

TEST_F(ProbeTest, WrittenZeroesAndNoBytesAreEmpty) {
  EXPECT_EQ(Probe(Written("", 0)).content, Content::kEmpty);
  EXPECT_EQ(Probe(File("image")).content, Content::kEmpty);
  EXPECT_EQ(Probe(Path("image")).device_bytes, 0U);
}

TEST_F(ProbeTest, EmptyDeviceIsEmpty) {
  const FilesystemInfo info = Probe(Losetup(Sparse("image", 8 * kMiB)));
  EXPECT_EQ(info.content, Content::kEmpty);
  EXPECT_EQ(info.device_bytes, 8 * kMiB);
}

// Data of a task that had it as a raw device may lie anywhere.
TEST_F(ProbeTest, ADeviceIsReadAsAWholeUnlessItIsLarge) {
  const std::string small = Sparse("small", 128 * kMiB), large = Sparse("large", 129 * kMiB);
  const std::string devices[] = {Losetup(small), Losetup(large)};
  EXPECT_TRUE(Probe(devices[0]).whole);
  EXPECT_FALSE(Probe(devices[1]).whole);
  EXPECT_TRUE(Probe(large).whole) << "of a file only the data is read";
  for (const std::string& device : devices) Overwrite(device, 70 * kMiB, "data");
  ExpectForeign(devices[0], "unknown data");
  EXPECT_EQ(Probe(devices[1]).content, Content::kEmpty);
  EXPECT_FALSE(Probe(devices[1]).whole);
}

TEST_F(ProbeTest, EachFilesystemWithItsSizeAndThatOfItsFile) {
  for (const char* fs_type : {"ext4", "xfs", "btrfs"}) {
    const std::string image = ImageOf(fs_type, fs_type);
    const auto bytes = static_cast<std::uint64_t>(StatOf(image).st_size);
    for (const std::uint64_t device_bytes : {bytes, 2 * bytes}) {
      ASSERT_EQ(::truncate(image.c_str(), static_cast<off_t>(device_bytes)), 0);
      const FilesystemInfo info = Probe(image);
      EXPECT_EQ(info.content, Content::kFilesystem);
      EXPECT_EQ(info.type, fs_type);
      EXPECT_EQ(info.size_bytes, bytes) << fs_type;
      EXPECT_EQ(info.device_bytes, device_bytes) << fs_type;
      EXPECT_FALSE(info.needs_check);
    }
  }
}

TEST_F(ProbeTest, Ext4OfMoreThanFourBillionBlocks) {
  const std::string image = Sparse("image", 32 * kMiB);
  ASSERT_EQ(Tool("mkfs.ext4 -q -F -b 4096 -O 64bit,^metadata_csum " + image), 0);
  Overwrite(image, 1024 + 0x150, std::string("\x01\x00\x00\x00", 4));  // s_blocks_count_hi
  EXPECT_EQ(Probe(image).size_bytes, ((std::uint64_t{1} << 32U) + 8192) * 4096);
}

TEST_F(ProbeTest, BtrfsOnSeveralDevicesIsNoFilesystemInThisOne) {
  Sparse("other", 128 * kMiB);
  ASSERT_EQ(Tool("mkfs.btrfs -q -K " + Sparse("image", 128 * kMiB) + " " + Path("other") + " >/dev/null 2>&1"), 0);
  EXPECT_EQ(Probe(Path("image")).content, Content::kForeign);
  EXPECT_EQ(Probe(Path("image")).type, "btrfs on 2 devices");
}

TEST_F(ProbeTest, FilesystemOnADeviceOrMounted) {
  EXPECT_EQ(Probe(Losetup(Ext4Image("device"))).type, "ext4");
  const std::string image = Ext4Image("image");
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"))));
  EXPECT_EQ(Probe(image).type, "ext4");
}

TEST_F(ProbeTest, UncleanUnmountWithAJournalNeedsNoCheck) {
  const std::string image = Ext4Image("image");
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"))));
  ASSERT_EQ(TryWrite(Path("target/file"), "x"), 0);
  ASSERT_EQ(Tool("cp --sparse=always " + image + " " + Path("copy")), 0);
  EXPECT_FALSE(Probe(Path("copy")).needs_check) << "the kernel replays the journal";
}

TEST_F(ProbeTest, Ext4WithErrorsNeedsACheck) {
  const std::string image = Ext4Image("image");
  ASSERT_EQ(Tool("debugfs -w -R 'set_super_value state 3' " + image + " 2>/dev/null"), 0);
  EXPECT_TRUE(Probe(image).needs_check);
}

TEST_F(ProbeTest, Ext4WithoutAJournalNotUnmountedCleanlyNeedsACheck) {
  const std::string image = Sparse("image", 32 * kMiB);
  ASSERT_EQ(Tool("mkfs.ext4 -q -F -O ^has_journal " + image), 0);
  EXPECT_FALSE(Probe(image).needs_check);
  ASSERT_EQ(Tool("debugfs -w -R 'set_super_value state 0' " + image + " 2>/dev/null"), 0);
  EXPECT_TRUE(Probe(image).needs_check);
}

TEST_F(ProbeTest, Ext4OfABlockSizeThatCannotBeIsAnError) {
  const std::string image = Sparse("image", 32 * kMiB);
  ASSERT_EQ(Tool("mkfs.ext4 -q -F -b 4096 -O ^metadata_csum " + image), 0);
  Overwrite(image, 1024 + 0x18, std::string("\xff\x00\x00\x00", 4));  // s_log_block_size
  EXPECT_THAT(mounter_.Probe(image), Refused(image));
}

TEST_F(ProbeTest, SwapIsForeign) {
  const std::string image = Sparse("image", 16 * kMiB);
  ASSERT_EQ(Tool("mkswap -q " + image), 0);
  ExpectForeign(image, "swap");
}

TEST_F(ProbeTest, LuksIsForeign) { ExpectForeign(Written(std::string("LUKS\xba\xbe\x00\x01", 8), 0), ""); }

TEST_F(ProbeTest, DosPartitionTableIsForeign) {
  std::string sector(512, '\0');
  // Not active, any geometry, type 83, from sector 2,048 on, 8,192 sectors.
  sector.replace(446, 16, std::string("\x00\x20\x21\x00\x83\x20\x21\x00\x00\x08\x00\x00\x00\x20\x00\x00", 16));
  sector.replace(510, 2, "\x55\xaa");
  ExpectForeign(Written(sector, 0), "dos");
}

TEST_F(ProbeTest, SeveralSignaturesAtOnceAreNeitherEmptyNorOneOfThem) {
  const std::string image = Ext4Image("image", 16 * kMiB);
  ASSERT_EQ(Tool("head -c 512 " + XfsImage("xfs") + " > " + Path("superblock")), 0);
  Overwrite(image, 0, ReadFile(Path("superblock")));
  const auto info = mounter_.Probe(image);
  if (info.ok()) {
    EXPECT_EQ(info->content, Content::kForeign) << info->type;
  } else {
    EXPECT_THAT(info, Refused(image));
  }
  EXPECT_FALSE(mounter_.Format({image, "ext4"}).ok());
}

// A raw block volume may have been written at one place only: at the head, in the middle or at the tail.
TEST_F(ProbeTest, UnknownDataAnywhereIsForeign) {
  for (const std::uint64_t offset : {std::uint64_t{0}, 3 * kMiB, 8 * kMiB, 16 * kMiB - 4}) {
    ExpectForeign(Written("data", offset), "unknown data");
  }
  const std::string sparse = Sparse("sparse", 1024 * kMiB);
  Overwrite(sparse, 1024 * kMiB - 4, "data");
  ExpectForeign(sparse, "unknown data");
  ExpectForeign(File("small", "x"), "unknown data");
}

TEST_F(ProbeTest, MissingPathDirectoryAndSymlinkAreErrors) {
  EXPECT_THAT(mounter_.Probe(Path("missing")), FailsWith(StatusCode::kNotFound, Path("missing")));
  EXPECT_THAT(mounter_.Probe(Dir("directory")), Refused(Path("directory")));
  ASSERT_EQ(::symlink(Sparse("image", kMiB).c_str(), Path("link").c_str()), 0);
  EXPECT_THAT(mounter_.Probe(Path("link")), Refused(Path("link")));
  EXPECT_FALSE(mounter_.Probe("/dev/zero").ok());
}

// A read of a file with a damaged map of blocks fails with EUCLEAN.
TEST_F(ProbeTest, UnreadableIsAnErrorAndNeverEmpty) {
  const std::string disk = Sparse("disk", 64 * kMiB);
  ASSERT_EQ(Tool("mkfs.ext4 -q -F -O ^metadata_csum " + disk), 0);
  ASSERT_EQ(::mount(Losetup(disk).c_str(), Dir("mounted").c_str(), "ext4", 0, nullptr), 0);
  File("mounted/image", std::string(8 * kMiB, '\0'));
  ASSERT_EQ(::umount2(Path("mounted").c_str(), 0), 0);
  const std::string device = LoopsOver(disk).front().device;
  ASSERT_EQ(Tool("debugfs -w -R 'set_inode_field image block[0] 0' " + device + " 2>/dev/null"), 0);
  ASSERT_EQ(::mount(device.c_str(), Path("mounted").c_str(), "ext4", 0, nullptr), 0);
  EXPECT_FALSE(mounter_.Probe(Path("mounted/image")).ok());
  EXPECT_FALSE(mounter_.Format({Path("mounted/image"), "ext4"}).ok());
}

}  // namespace
}  // namespace mooring::testing
