// A few blocks behind an ext4 are too few for a block group of their own, and stay unused. resize2fs(8) is the judge.
#include "mounter/superblock/ext4_super.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

constexpr std::uint64_t kBlockBytes = 4096, kGroupBytes = 128 * kMiB;

class LeastGrowthTest : public KernelTest {
 protected:
  // An ext4 whose last block group is full, on a file that is larger by so many blocks.
  std::string ImageWithMore(std::uint64_t groups, std::uint64_t blocks) {
    if (!Exists(Path("pristine"))) Ext4Image("pristine", groups * kGroupBytes);
    std::string image = Path("image");
    EXPECT_EQ(Tool(fmt::format("cp --sparse=always {} {}", Path("pristine"), image)), 0);
    EXPECT_EQ(::truncate(image.c_str(), static_cast<off_t>(groups * kGroupBytes + blocks * kBlockBytes)), 0);
    return image;
  }
  bool Resize2fsGrows(const std::string& image) {
    const std::uint64_t before = mounter_.Probe(image)->size_bytes;
    EXPECT_EQ(Tool("resize2fs " + image + " >/dev/null 2>&1"), 0);
    return mounter_.Probe(image)->size_bytes > before;
  }
  bool SaysThatItGrows(const std::string& image) {
    const UniqueFd fd(::open(image.c_str(), O_RDONLY | O_CLOEXEC));
    const auto super = ReadExt4Super(fd.get(), image);
    EXPECT_OK(super.status());
    return super.ok() && CanGrowTo(*super, static_cast<std::uint64_t>(StatOf(image).st_size));
  }
};

class LeastGroupTest : public LeastGrowthTest, public ::testing::WithParamInterface<std::uint64_t> {};

// The groups 1 and 3 have a copy of the superblock, 2 has none.
TEST_P(LeastGroupTest, IsThatOfResize2fs) {
  std::uint64_t too_few = 1, enough = 4096;
  while (enough - too_few > 1) {
    const std::uint64_t blocks = (too_few + enough) / 2;
    const std::string image = ImageWithMore(GetParam(), blocks);
    const bool said = SaysThatItGrows(image), grows = Resize2fsGrows(image);
    EXPECT_EQ(said, grows) << "for " << blocks << " blocks more";
    (grows ? enough : too_few) = blocks;
  }
  EXPECT_GT(enough, 50U);
  EXPECT_LT(enough, 4095U) << "or nothing is enough";
}

INSTANTIATE_TEST_SUITE_P(Groups, LeastGroupTest, ::testing::Values(1, 2, 3));

TEST_F(LeastGrowthTest, ALastGroupThatIsNotFullTakesEachBlock) {
  const std::string image = Ext4Image("image", 100 * kMiB);
  ASSERT_EQ(::truncate(image.c_str(), static_cast<off_t>(100 * kMiB + kBlockBytes)), 0);
  EXPECT_TRUE(SaysThatItGrows(image));
  EXPECT_TRUE(Resize2fsGrows(image));
  EXPECT_FALSE(SaysThatItGrows(image)) << "it has its size";
}

// Also where the kernel would want CAP_SYS_RESOURCE to look at it.
TEST_F(LeastGrowthTest, NothingIsDoneForLess) {
  const std::string image = ImageWithMore(1, 5);
  PutOnPath("e2fsck", "exit 8");
  PutOnPath("resize2fs", "exit 1");
  EXPECT_OK(mounter_.Grow(image, "ext4"));
  RestorePath();
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("target"))));
  EXPECT_OK(mounter_.Grow(Path("target"), "ext4"));
  EXPECT_EQ(mounter_.Probe(image)->size_bytes, kGroupBytes);
}

}  // namespace
}  // namespace mooring::testing
