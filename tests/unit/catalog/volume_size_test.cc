#include "plugin/model/volume_size.h"

#include <limits>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

struct SizeRow {
  SizeRange range;
  std::uint64_t minimum;
  std::uint64_t chosen;  // 0: OUT_OF_RANGE
};

TEST(VolumeSizeTest, ANewVolumeGetsASizeInItsRange) {
  const SizeRow rows[] = {
      {{0, 0}, kMiB, kGiB},
      {{0, 512 * kMiB}, kMiB, 512 * kMiB},
      {{0, 2 * kGiB}, kMiB, kGiB},
      {{0, 5000}, kMiB, 0},
      {{0, 20 * kMiB + 5}, kMiB, 20 * kMiB},
      {{10 * kGiB, 10 * kGiB}, kMiB, 10 * kGiB},  // exactly that: csi-sanity
      {{2 * kMiB + 1, 0}, kMiB, 2 * kMiB + 4096},
      {{2 * kMiB + 1, 2 * kMiB + 4096}, kMiB, 2 * kMiB + 4096},
      {{2 * kMiB + 1, 2 * kMiB + 4095}, kMiB, 0},
      {{1, 0}, 16 * kMiB, 16 * kMiB},
      {{1, 16 * kMiB}, 300 * kMiB, 0},
      {{kLargestVolumeBytes, 0}, kMiB, kLargestVolumeBytes},
      {{kLargestVolumeBytes + 1, 0}, kMiB, 0},
      {{static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()), 0}, kMiB, 0},
  };
  for (const SizeRow& row : rows) {
    const absl::StatusOr<std::uint64_t> size = ChooseSize(row.range, row.minimum);
    if (row.chosen == 0) {
      EXPECT_TRUE(absl::IsOutOfRange(size.status())) << RangeText(row.range);
    } else {
      ASSERT_OK(size);
      EXPECT_EQ(*size, row.chosen) << RangeText(row.range);
    }
  }
}

TEST(VolumeSizeTest, AVolumeGrowsToTheRequestedSizeAndNeverShrinks) {
  const SizeRow rows[] = {
      {{2 * kGiB, 0}, kGiB, 2 * kGiB},
      {{2 * kGiB, 2 * kGiB}, kGiB, 2 * kGiB},
      {{1, 0}, kGiB, kGiB},
      {{1, kGiB}, kGiB, kGiB},
      {{0, kGiB}, kGiB, kGiB},
      {{0, 3 * kGiB}, kGiB, kGiB},
      {{1, kMiB}, kGiB, 0},
      {{0, kMiB}, kGiB, 0},
      {{kGiB + 1, kGiB + 2}, kGiB, 0},
      {{kGiB + 1, 0}, kGiB, kGiB + 4096},
      {{20 * kTiB, 0}, kGiB, 0},
  };
  for (const SizeRow& row : rows) {
    const absl::StatusOr<std::uint64_t> size = ChooseGrownSize(row.range, row.minimum);
    if (row.chosen == 0) {
      EXPECT_TRUE(absl::IsOutOfRange(size.status())) << RangeText(row.range);
    } else {
      ASSERT_OK(size);
      EXPECT_EQ(*size, row.chosen) << RangeText(row.range);
    }
  }
}

TEST(VolumeSizeTest, ErrorsNamePossibleSizes) {
  EXPECT_THAT(Message(ChooseSize({.required = 1, .limit = 20 * kMiB}, 300 * kMiB).status()),
              AllOf(HasSubstr("1 bytes to 20 MiB"), HasSubstr("300 MiB"), HasSubstr("limit_bytes")));
  EXPECT_THAT(Message(ChooseGrownSize({.required = 0, .limit = kMiB}, kGiB).status()), HasSubstr("cannot shrink"));
  EXPECT_EQ(RangeText({}), "any size");
  EXPECT_EQ(RangeText({.required = kTiB, .limit = kTiB}), "exactly 1 TiB");
}

}  // namespace
}  // namespace mooring::testing
