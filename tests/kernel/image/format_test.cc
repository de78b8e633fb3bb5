// Format accepts an empty image only, and formats it completely or not at all.
#include <sys/statvfs.h>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class FormatTest : public KernelTest {
 protected:
  std::string Hash(const std::string& path) {
    return std::to_string(std::hash<std::string>()(ReadFile(path))) + " of " + std::to_string(StatOf(path).st_size);
  }
  void ExpectMountable(const std::string& path, const std::string& fs_type) {
    EXPECT_OK(mounter_.Mount(MountOf(path, Path("check"), fs_type)));
    EXPECT_EQ(TryWrite(Path("check/file"), "x"), 0);
    EXPECT_OK(mounter_.Unmount(UnmountOf(Path("check"), true)));
  }
};

struct FormatCase {
  const char* fs_type;
  std::uint64_t most_blocks;  // bytes that a new filesystem of 1 GiB may take
};

class FormatTypeTest : public FormatTest, public ::testing::WithParamInterface<FormatCase> {};

TEST_P(FormatTypeTest, FillsTheImageAndKeepsItSparse) {
  const std::string image = Sparse("image", 1024 * kMiB);
  ASSERT_OK(mounter_.Format({image, GetParam().fs_type}));
  EXPECT_EQ(StatOf(image).st_size, static_cast<off_t>(1024 * kMiB));
  EXPECT_LT(StatOf(image).st_blocks * 512, static_cast<blkcnt_t>(GetParam().most_blocks));
  EXPECT_EQ(mounter_.Probe(image)->size_bytes, 1024 * kMiB);
  EXPECT_TRUE(IsClean(image, GetParam().fs_type));
  ExpectMountable(image, GetParam().fs_type);
  EXPECT_THAT(Entries(dir_.path()), UnorderedElementsAre("image"));
}

INSTANTIATE_TEST_SUITE_P(Types, FormatTypeTest,
                         ::testing::Values(FormatCase{"ext4", 16 * kMiB}, FormatCase{"xfs", 128 * kMiB},
                                           FormatCase{"btrfs", 8 * kMiB}),
                         [](const auto& test) { return std::string(test.param.fs_type); });

// The plugin's smallest btrfs volume (plugin/model/volume_size.cc).
TEST_F(FormatTest, MakesABtrfsOf109MebibytesAndNoSmallerOne) {
  const std::string image = Sparse("image", 109 * kMiB);
  ASSERT_OK(mounter_.Format({image, "btrfs"}));
  ExpectMountable(image, "btrfs");
  EXPECT_FALSE(mounter_.Format({Sparse("smaller", 109 * kMiB - 4096), "btrfs"}).ok());
}

TEST_F(FormatTest, TwoImagesHaveTwoUuids) {
  ASSERT_OK(mounter_.Format({Sparse("a", 300 * kMiB), "xfs"}));
  ASSERT_OK(mounter_.Format({Sparse("b", 300 * kMiB), "xfs"}));
  EXPECT_OK(mounter_.Mount(MountOf(Path("a"), Path("target-a"), "xfs")));
  EXPECT_OK(mounter_.Mount(MountOf(Path("b"), Path("target-b"), "xfs")));
}

TEST_F(FormatTest, KeepsTheModeOfTheImage) {
  const std::string image = Sparse("image", 32 * kMiB);
  ASSERT_EQ(::chmod(image.c_str(), 0600), 0);
  ASSERT_OK(mounter_.Format({image, "ext4"}));
  EXPECT_EQ(StatOf(image).st_mode & 07777U, 0600U);
}

TEST_F(FormatTest, WritesADeviceInPlace) {
  const std::string device = Losetup(Sparse("image", 32 * kMiB));
  ASSERT_OK(mounter_.Format({device, "ext4"}));
  EXPECT_EQ(mounter_.Probe(device)->type, "ext4");
  EXPECT_OK(mounter_.Mount(MountOf(device, Path("target"))));
}

TEST_F(FormatTest, AnythingButEmptyIsRefusedAndUnchanged) {
  File("image", std::string(16 * kMiB, '\0'));
  Overwrite(Path("image"), 16 * kMiB - 4, "data");
  Ext4Image("ext4");
  for (const auto& [name, content] : {std::pair("image", "holds unknown data"), {"ext4", "holds ext4"}}) {
    const std::string before = Hash(Path(name));
    const ino_t inode = StatOf(Path(name)).st_ino;
    EXPECT_THAT(mounter_.Format({Path(name), "ext4"}), Refused(content));
    EXPECT_THAT(mounter_.Format({Path(name), "xfs"}), Refused(content));
    EXPECT_EQ(Hash(Path(name)), before);
    EXPECT_EQ(StatOf(Path(name)).st_ino, inode);
  }
  EXPECT_THAT(Entries(dir_.path()), UnorderedElementsAre("image", "ext4"));
}

TEST_F(FormatTest, UnknownTypeAndMissingImage) {
  const std::string image = Sparse("image", 32 * kMiB);
  EXPECT_THAT(mounter_.Format({image, "ntfs"}), FailsWith(StatusCode::kInvalidArgument, "ntfs"));
  EXPECT_THAT(mounter_.Format({image, ""}), FailsWith(StatusCode::kInvalidArgument, "ext4"));
  EXPECT_THAT(mounter_.Format({Path("missing"), "ext4"}), FailsWith(StatusCode::kNotFound, Path("missing")));
  EXPECT_EQ(StatOf(image).st_blocks, 0);
}

TEST_F(FormatTest, LeftoverOfAKilledMkfsIsReplaced) {
  const std::string image = Sparse("image", 32 * kMiB);
  for (const char* name : {"image.formatting-0123abcd", "image.formatting-89abcdef"}) {
    File(name, "half a filesystem");
  }
  File("image2.formatting-0123abcd", "another image's");
  ASSERT_OK(mounter_.Format({image, "ext4"}));
  EXPECT_TRUE(IsClean(image, "ext4"));
  EXPECT_THAT(Entries(dir_.path()), UnorderedElementsAre("image", "image2.formatting-0123abcd"));
}

TEST_F(FormatTest, SymlinkInThePlaceOfTheLeftoverIsNotFollowed) {
  const std::string image = Sparse("image", 32 * kMiB);
  ASSERT_EQ(::symlink(File("precious", "data").c_str(), Path("image.formatting-0123abcd").c_str()), 0);
  ASSERT_OK(mounter_.Format({image, "ext4"}));
  EXPECT_EQ(ReadFile(Path("precious")), "data");
}

TEST_F(FormatTest, ImageInUseAsABlockDeviceIsRefused) {
  const std::string image = Sparse("image", 32 * kMiB);
  const std::string device = Losetup(image);
  EXPECT_THAT(mounter_.Format({image, "ext4"}), Refused(device))
      << "its user would go on writing to a file that nobody can find";
  EXPECT_EQ(StatOf(image).st_blocks, 0);
}

// The formatted file must not replace one whose device was attached meanwhile.
TEST_F(FormatTest, ImageAttachedMeanwhileIsTheFormattedOne) {
  const std::string image = Sparse("image", 1024 * kMiB);
  std::thread formatting([&] { EXPECT_OK(mounter_.Format({image, "ext4"})); });
  while (Entries(dir_.path()).size() == 1 && StatOf(image).st_blocks == 0) std::this_thread::yield();
  const auto loop = mounter_.AttachLoop({.backing_file = image, .label = "test", .read_only = false});
  formatting.join();
  ASSERT_OK(loop);
  EXPECT_EQ(loop->backing_inode, StatOf(image).st_ino);
}

TEST_F(FormatTest, OneOfManyAtTheSameTimeFormats) {
  const std::string image = Sparse("image", 32 * kMiB);
  std::atomic<int> formatted = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { formatted += mounter_.Format({image, "ext4"}).ok() ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(formatted, 1);
  EXPECT_TRUE(IsClean(image, "ext4"));
  EXPECT_THAT(Entries(dir_.path()), UnorderedElementsAre("image"));
}

TEST_F(FormatTest, MissingMkfsNamesThePackageAndLeavesNothing) {
  const std::string image = Sparse("image", 300 * kMiB);
  const auto format = [&](const char* type) {
    return AskInChild([&, type] {
      ::setenv("PATH", Dir("empty").c_str(), 1);
      return mounter_.Format({image, type}).ToString();
    });
  };
  for (const auto& [type, package] : {std::pair("ext4", "e2fsprogs"), {"xfs", "xfsprogs"}, {"btrfs", "btrfs-progs"}}) {
    EXPECT_THAT(format(type), ::testing::StartsWith(std::string("FAILED_PRECONDITION: mkfs.") + type));
    EXPECT_THAT(format(type), HasSubstr(package));
  }
  EXPECT_THAT(Entries(dir_.path()), UnorderedElementsAre("image", "empty"));
  EXPECT_EQ(StatOf(image).st_blocks, 0);
}

class FullDiskTest : public FormatTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(FullDiskTest, IsReportedAndLeavesTheImageEmpty) {
  ASSERT_EQ(::mount("none", Dir("small").c_str(), "tmpfs", 0, "size=256k"), 0);
  const std::string image = Sparse("small/image", 1024 * kMiB);
  EXPECT_THAT(mounter_.Format({image, GetParam()}), FailsWith(StatusCode::kResourceExhausted, image));
  EXPECT_THAT(Entries(Path("small")), UnorderedElementsAre("image"));
  EXPECT_EQ(mounter_.Probe(image)->content, FilesystemInfo::Content::kEmpty);
}

INSTANTIATE_TEST_SUITE_P(Types, FullDiskTest, ::testing::Values("ext4", "xfs", "btrfs"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(FormatTest, ImageThatIsTooSmallStaysAsItWas) {
  const std::string image = Sparse("image", 4096);
  for (const char* fs_type : {"ext4", "xfs", "btrfs"}) EXPECT_FALSE(mounter_.Format({image, fs_type}).ok()) << fs_type;
  EXPECT_FALSE(mounter_.Format({File("nothing"), "ext4"}).ok());
  EXPECT_THAT(Entries(dir_.path()), UnorderedElementsAre("image", "nothing"));
  EXPECT_EQ(StatOf(image).st_size, 4096);
}

std::uint64_t Inodes(const std::string& path) {
  struct statvfs filesystem = {};
  EXPECT_EQ(::statvfs(path.c_str(), &filesystem), 0);
  return filesystem.f_files;
}

// Both ends of each range, on the smallest and on a larger volume.
TEST_F(FormatTest, OptionsOfMkfsMakeAFilesystemThatIsMounted) {
  struct Case {
    const char* fs_type;
    FormatOptions options;
    const char* seen;  // by dumpe2fs or xfs_info
  };
  const std::vector<Case> cases = {
      {"ext4", {.inode_size = 512}, "Inode size:[[:space:]]*512"},
      {"ext4", {.inode_size = 1024, .bytes_per_inode = 4096}, "Inode size:[[:space:]]*1024"},
      {"ext4", {.bytes_per_inode = 4096}, "Inode size:[[:space:]]*256"},
      {"ext4", {.bytes_per_inode = 64U << 20U}, "Inode size:[[:space:]]*256"},
      {"xfs", {.inode_size = 2048}, "isize=2048"},
      {"xfs", {.inode_size = 512, .max_inode_percent = 1}, "imaxpct=1$"},
      {"xfs", {.max_inode_percent = 100}, "imaxpct=100"},
  };
  int number = 0;
  for (const Case& row : cases) {
    for (const std::uint64_t mib : {std::string(row.fs_type) == "ext4" ? 16 : 300, 1024}) {
      const std::string image = Sparse(fmt::format("image-{}", number++), mib * kMiB);
      ASSERT_OK(mounter_.Format({image, row.fs_type, row.options})) << ToString(row.options) << " " << mib;
      EXPECT_TRUE(IsClean(image, row.fs_type)) << ToString(row.options) << " " << mib;
      const bool is_ext4 = std::string(row.fs_type) == "ext4";
      EXPECT_EQ(Tool(fmt::format("{} {} 2>&1 | grep -q '{}'", is_ext4 ? "dumpe2fs -h" : "xfs_db -r -c info", image,
                                 row.seen)),
                0)
          << row.seen << " " << mib;
      ExpectMountable(image, row.fs_type);
    }
  }
}

TEST_F(FormatTest, ADeviceWithLargeSectorsIsFormatted) {
  for (const char* const type : {"ext4", "xfs", "btrfs"}) {
    const std::string image = Sparse(fmt::format("of-{}", type), 300 * kMiB);
    ASSERT_EQ(Tool(fmt::format("losetup --find --show --sector-size 4096 {} >{}", image, Path("device"))), 0);
    std::string device = ReadFile(Path("device"));
    device.pop_back();
    EXPECT_OK(mounter_.Format({device, type}));
    EXPECT_OK(mounter_.Mount(MountOf(device, Path("at"), type)));
    EXPECT_EQ(TryWrite(Path("at/file"), "text"), 0);
    EXPECT_OK(mounter_.Unmount(UnmountOf(Path("at"))));
    EXPECT_EQ(Tool("losetup --detach " + device), 0);
  }
}

// A template of other options must not be taken.
TEST_F(FormatTest, ImagesOfOneSizeHaveTheirOwnOptions) {
  ASSERT_OK(mounter_.Format({Sparse("plain", 512 * kMiB), "ext4"}));
  ASSERT_OK(mounter_.Format({Sparse("many", 512 * kMiB), "ext4", {.bytes_per_inode = 4096}}));
  ASSERT_OK(mounter_.Format({Sparse("again", 512 * kMiB), "ext4", {.bytes_per_inode = 4096}}));
  std::vector<std::uint64_t> inodes;
  for (const char* name : {"plain", "many", "again"}) {
    ASSERT_OK(mounter_.Mount(MountOf(Path(name), Path("at"))));
    inodes.push_back(Inodes(Path("at")));
    ASSERT_OK(mounter_.Unmount(UnmountOf(Path("at"))));
  }
  EXPECT_THAT(inodes, ElementsAre(32768U, 131072U, 131072U));
}

TEST_F(FormatTest, OptionsOfOtherFilesystemsAndWrongValuesAreRefused) {
  const std::string image = Sparse("image", 300 * kMiB);
  const std::vector<std::pair<std::string, FormatOptions>> wrong = {
      {"ext4", {.inode_size = 128}},           {"ext4", {.inode_size = 300}},       {"ext4", {.inode_size = 2048}},
      {"ext4", {.bytes_per_inode = 4095}},     {"ext4", {.max_inode_percent = 5}},  {"xfs", {.inode_size = 256}},
      {"xfs", {.bytes_per_inode = 8192}},      {"xfs", {.max_inode_percent = 101}}, {"btrfs", {.inode_size = 512}},
      {"ext4", {.bytes_per_inode = 1U << 27U}}};
  for (const auto& [fs_type, options] : wrong) {
    EXPECT_THAT(mounter_.Format({image, fs_type, options}), FailsWith(StatusCode::kInvalidArgument, ""))
        << fs_type << " " << ToString(options);
  }
  EXPECT_EQ(mounter_.Probe(image)->content, FilesystemInfo::Content::kEmpty);
}

}  // namespace
}  // namespace mooring::testing
