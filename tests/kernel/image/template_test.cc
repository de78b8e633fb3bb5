// Format of a second image of the same size needs no mkfs, and has the same result.
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class AnyTemplateTest : public KernelTest {
 protected:
  // Formats in a new process: the first images with mkfs on its PATH, the last one without.
  std::string FormatInChild(const std::string& fs_type, const std::vector<std::uint64_t>& with_mkfs,
                            std::uint64_t without) {
    return AskInChild([&]() -> std::string {
      int count = 0;
      for (const std::uint64_t bytes : with_mkfs) {
        const absl::Status made = mounter_.Format({Sparse(fmt::format("{}", ++count), bytes), fs_type});
        if (!made.ok()) return made.ToString();
      }
      ::setenv("PATH", Dir("empty").c_str(), 1);
      return mounter_.Format({Sparse("last", without), fs_type}).ToString();
    });
  }
};

class TemplateTest : public AnyTemplateTest, public ::testing::WithParamInterface<const char*> {
 protected:
  static std::string type() { return GetParam(); }
};

TEST_P(TemplateTest, SecondOfASizeNeedsNoMkfsAndIsAFilesystemOfItsOwn) {
  for (const std::uint64_t mebibytes : {128U, 512U, 1024U, 1031U, 10240U}) {
    SCOPED_TRACE(mebibytes);
    ASSERT_EQ(FormatInChild(type(), {mebibytes * kMiB}, mebibytes * kMiB), "OK");
    EXPECT_TRUE(IsClean(Path("1"), type()));
    EXPECT_TRUE(IsClean(Path("last"), type()));
    EXPECT_EQ(mounter_.Probe(Path("last"))->size_bytes, mebibytes * kMiB);
    ASSERT_OK(mounter_.Mount(MountOf(Path("1"), Path("a"), type())));
    ASSERT_OK(mounter_.Mount(MountOf(Path("last"), Path("b"), type())));
    EXPECT_EQ(TryWrite(Path("a/file"), "a"), 0);
    EXPECT_EQ(TryWrite(Path("b/file"), "b"), 0);
    EXPECT_EQ(ReadFile(Path("a/file")), "a");
    for (const auto& [place, image] : {std::pair("a", "1"), std::pair("b", "last")}) {
      ASSERT_OK(mounter_.Unmount(UnmountOf(Path(place))));
      ASSERT_TRUE(NoLoopOver(Path(image)));
      EXPECT_TRUE(IsClean(Path(image), type()));
    }
  }
}

TEST_P(TemplateTest, ItTakesNoMoreRoomThanTheFirst) {
  ASSERT_EQ(FormatInChild(type(), {1024 * kMiB}, 1024 * kMiB), "OK");
  EXPECT_LE(StatOf(Path("last")).st_blocks, StatOf(Path("1")).st_blocks);
}

TEST_P(TemplateTest, OnlyTheSameSizeIsMadeOfIt) {
  EXPECT_THAT(FormatInChild(type(), {1024 * kMiB}, 1025 * kMiB), HasSubstr("not installed"));
}

TEST_P(TemplateTest, FullDiskIsReportedAndLeavesTheImageEmpty) {
  const std::string answer = AskInChild([&]() -> std::string {
    EXPECT_OK(mounter_.Format({Sparse("first", 1024 * kMiB), type()}));
    if (::mount("none", Dir("small").c_str(), "tmpfs", 0, "size=128k") != 0) return "no tmpfs";
    const absl::Status made = mounter_.Format({Sparse("small/image", 1024 * kMiB), type()});
    const bool empty = mounter_.Probe(Path("small/image"))->content == FilesystemInfo::Content::kEmpty;
    const std::string left = fmt::format("{} left, {}", Entries(Path("small")).size(), empty ? "empty" : "not empty");
    ::umount(Path("small").c_str());
    return left + ": " + made.ToString();
  });
  EXPECT_THAT(answer, ::testing::StartsWith("1 left, empty: RESOURCE_EXHAUSTED"));
}

INSTANTIATE_TEST_SUITE_P(Filesystems, TemplateTest, ::testing::Values("ext4", "btrfs"),
                         [](const auto& instance) { return std::string(instance.param); });

// UUID, hash seed and checksum of the superblock and its copies; in 1 GiB these are 5.
TEST_F(AnyTemplateTest, Ext4DiffersInItsSuperblocksOnly) {
  ASSERT_EQ(FormatInChild("ext4", {1024 * kMiB}, 1024 * kMiB), "OK");
  EXPECT_EQ(Tool(fmt::format("n=$(cmp -l {} {} | wc -l); test $n -gt 150 && test $n -le $((5 * 36))", Path("1"),
                             Path("last"))),
            0);
  EXPECT_EQ(Tool(fmt::format("for i in {} {}; do dumpe2fs -h $i 2>/dev/null | grep -v -e UUID -e Seed: -e Checksum: "
                             "> $i.txt; done; diff {}.txt {}.txt",
                             Path("1"), Path("last"), Path("1"), Path("last"))),
            0);
}

// Whatever mke2fs.conf(5) says on this host.
TEST_F(AnyTemplateTest, Ext4HasChecksumsWhereTheConfigurationHasNone) {
  const std::string config =
      File("mke2fs.conf",
           "[defaults]\n base_features = sparse_super,large_file,filetype,resize_inode,dir_index,"
           "ext_attr\n[fs_types]\n ext4 = {\n  features = has_journal,extent,huge_file,flex_bg,"
           "uninit_bg,dir_nlink,extra_isize\n }\n");
  PutOnPath("mkfs.ext4", "MKE2FS_CONFIG=" + config + " exec /usr/sbin/mkfs.ext4 \"$@\"");
  const std::string made = AskInChild([&] {
    const absl::Status first = mounter_.Format({Sparse("1", 64 * kMiB), "ext4"});
    return first.ok() ? mounter_.Format({Sparse("2", 64 * kMiB), "ext4"}).ToString() : first.ToString();
  });
  ASSERT_EQ(made, "OK");
  EXPECT_TRUE(IsClean(Path("1"), "ext4"));
  EXPECT_TRUE(IsClean(Path("2"), "ext4"));
  EXPECT_EQ(Tool("dumpe2fs -h " + Path("2") + " 2>/dev/null | grep -q metadata_csum_seed"), 0);
}

TEST_F(AnyTemplateTest, ThoseThatAreTooLargeAreMadeByMkfsEachTime) {
  constexpr std::uint64_t kHuge = 1024 * 1024 * kMiB;
  EXPECT_THAT(FormatInChild("ext4", {kHuge}, kHuge), HasSubstr("not installed"));
}

TEST_F(AnyTemplateTest, TheLastFewSizesAreKept) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t i = 0; i < 9; ++i) sizes.push_back((32 + i) * kMiB);
  EXPECT_EQ(FormatInChild("ext4", sizes, 33 * kMiB), "OK");
  EXPECT_THAT(FormatInChild("ext4", sizes, 32 * kMiB), HasSubstr("not installed"));
}

}  // namespace
}  // namespace mooring::testing
