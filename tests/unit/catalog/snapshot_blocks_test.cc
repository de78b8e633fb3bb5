// Allocated and changed blocks against a comparison byte by byte, on the filesystem of the tests' temporary directory.
// Where extents are shared: tests/kernel.
#include "plugin/backends/image/snapshot_blocks.h"

#include "tests/support/block_patterns.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

using testing::Bytes;
using testing::ChangedByBytes;
using testing::Holes;
using testing::WriteImage;
using Ranges = std::vector<ByteRange>;

class SnapshotBlocksTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  Ranges Allocated(const std::string& name, std::uint64_t from = 0) {
    Ranges found;
    const auto image = SnapshotImage::Open(Path(name));
    EXPECT_TRUE(FindAllocated(*image, from, [&](const ByteRange& range) {
                  found.push_back(range);
                  return absl::OkStatus();
                }).ok());
    return found;
  }
  Ranges Changed(const std::string& base, const std::string& target, std::uint64_t from = 0) {
    Ranges found;
    const auto older = SnapshotImage::Open(Path(base)), newer = SnapshotImage::Open(Path(target));
    EXPECT_TRUE(FindChanged(*older, *newer, from, [&](const ByteRange& range) {
                  found.push_back(range);
                  return absl::OkStatus();
                }).ok());
    return found;
  }

  const TempDir scratch_;
  const std::string directory_ = scratch_.path();
};

constexpr std::uint64_t kBlock = kBlockBytes;

TEST_F(SnapshotBlocksTest, AllocatedBlocksAreTheWrittenOnes) {
  WriteImage(Path("a"), 64 * kBlock, {{3 * kBlock, 4 * kBlock}, {4 * kBlock, 6 * kBlock}, {63 * kBlock, 64 * kBlock}});
  EXPECT_THAT(Allocated("a"), ElementsAre(ByteRange{3 * kBlock, 6 * kBlock}, ByteRange{63 * kBlock, 64 * kBlock}));
  EXPECT_THAT(Allocated("a", 4 * kBlock + 1),
              ElementsAre(ByteRange{4 * kBlock, 6 * kBlock}, ByteRange{63 * kBlock, 64 * kBlock}));
  EXPECT_THAT(Allocated("a", 6 * kBlock), ElementsAre(ByteRange{63 * kBlock, 64 * kBlock}));
  EXPECT_THAT(Allocated("a", 64 * kBlock), IsEmpty());
}

TEST_F(SnapshotBlocksTest, AnEmptyImageHasNothingAllocatedAndNothingChanged) {
  WriteImage(Path("a"), 64 * kBlock, {});
  WriteImage(Path("b"), 64 * kBlock, {});
  EXPECT_THAT(Allocated("a"), IsEmpty());
  EXPECT_THAT(Changed("a", "b"), IsEmpty());
}

TEST_F(SnapshotBlocksTest, AChangedByteIsAChangedBlock) {
  WriteImage(Path("a"), 64 * kBlock, {{0, 64 * kBlock}});
  std::filesystem::copy_file(Path("a"), Path("b"));
  EXPECT_THAT(Changed("a", "b"), IsEmpty());
  std::fstream file(Path("b"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5 * kBlock + 17).put('!');
  file.seekp(6 * kBlock).put('!');
  file.seekp(9 * kBlock - 1).put('!');
  file.close();
  EXPECT_THAT(Changed("a", "b"), ElementsAre(ByteRange{5 * kBlock, 7 * kBlock}, ByteRange{8 * kBlock, 9 * kBlock}));
  EXPECT_THAT(Changed("a", "b", 7 * kBlock), ElementsAre(ByteRange{8 * kBlock, 9 * kBlock}));
}

TEST_F(SnapshotBlocksTest, ZerosAndHolesAreTheSame) {
  WriteImage(Path("a"), 64 * kBlock, {{8 * kBlock, 16 * kBlock}}, '\0');
  WriteImage(Path("b"), 64 * kBlock, {});
  EXPECT_THAT(Changed("a", "b"), IsEmpty());
  EXPECT_THAT(Changed("b", "a"), IsEmpty());
}

TEST_F(SnapshotBlocksTest, APunchedHoleIsAChange) {
  WriteImage(Path("a"), 64 * kBlock, {{8 * kBlock, 16 * kBlock}});
  WriteImage(Path("b"), 64 * kBlock, {});
  EXPECT_THAT(Changed("a", "b"), ElementsAre(ByteRange{8 * kBlock, 16 * kBlock}));
}

TEST_F(SnapshotBlocksTest, ASmallerBaseIsExtendedWithZeros) {
  WriteImage(Path("a"), 8 * kBlock, {{0, 8 * kBlock}});
  WriteImage(Path("b"), 64 * kBlock, {{0, 10 * kBlock}, {20 * kBlock, 21 * kBlock}});
  EXPECT_EQ(Changed("a", "b"), ChangedByBytes(Bytes(Path("a")), Bytes(Path("b"))));
  EXPECT_THAT(Changed("a", "b"), ElementsAre(ByteRange{8 * kBlock, 10 * kBlock}, ByteRange{20 * kBlock, 21 * kBlock}));
}

TEST_F(SnapshotBlocksTest, FindsTheSameBlocksAsABytewiseComparison) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    testing::WriteAtRandom(Path("a"), 2048 * kBlock, seed);
    std::filesystem::copy_file(Path("a"), Path("b"), std::filesystem::copy_options::overwrite_existing);
    testing::ChangeAtRandom(Path("b"), 2048 * kBlock, seed);
    EXPECT_EQ(Changed("a", "b"), ChangedByBytes(Bytes(Path("a")), Bytes(Path("b")))) << "seed " << seed;
    const Ranges holes = Holes(Allocated("b"), 2048 * kBlock);
    for (const ByteRange& hole : holes) EXPECT_TRUE(testing::IsZero(Bytes(Path("b")), hole)) << "seed " << seed;
  }
}

TEST_F(SnapshotBlocksTest, AnErrorOfTheReceiverEndsTheSearch) {
  WriteImage(Path("a"), 64 * kBlock, {{0, kBlock}, {8 * kBlock, 9 * kBlock}});
  const auto image = SnapshotImage::Open(Path("a"));
  int calls = 0;
  const absl::Status status = FindAllocated(*image, 0, [&](const ByteRange&) {
    ++calls;
    return Aborted("enough");
  });
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_EQ(calls, 1);
}

TEST_F(SnapshotBlocksTest, AMissingImageIsAnErrorWithItsPath) {
  const absl::Status status = SnapshotImage::Open(Path("none")).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(Message(status), ::testing::HasSubstr(Path("none")));
}

}  // namespace
}  // namespace mooring::testing
