// The table of mount flags: each row does its part everywhere that flags are read, written, sent or merged.
#include "mounter/mount_flags.h"

#include <gmock/gmock.h>
#include <sys/mount.h>

#include "mounter/mount_options.h"

namespace mooring::testing {
namespace {

using ::testing::HasSubstr;

class MountFlagsTest : public ::testing::TestWithParam<MountFlagRow> {
 protected:
  static MountFlags With() {
    MountFlags flags;
    Set(flags, GetParam());
    return flags;
  }
};

TEST_P(MountFlagsTest, WordSetsIt) {
  const auto parsed = ParseMountFlags("ext4", {std::string(GetParam().word)});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->flags, With());
  EXPECT_TRUE(IsSet(parsed->flags, GetParam()));
}

TEST_P(MountFlagsTest, OppositeClearsIt) {
  const auto parsed = ParseMountFlags("ext4", {std::string(GetParam().word), std::string(GetParam().opposite)});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->flags, MountFlags());
}

TEST_P(MountFlagsTest, IsPrinted) {
  EXPECT_THAT("," + ToString(With()) + ",", HasSubstr("," + std::string(GetParam().word) + ","));
}

TEST_P(MountFlagsTest, ComesBackFromAttributes) {
  EXPECT_EQ(FlagsOfAttributes(AttributesOf(With())), With());
  EXPECT_EQ(GetParam().attribute & ~GetParam().mask, 0U);
  EXPECT_EQ(KnownAttributes() & GetParam().mask, GetParam().mask);
}

TEST_P(MountFlagsTest, ComesBackFromMountInfo) { EXPECT_EQ(FlagsOfMountInfo(ToString(With())), With()); }

TEST_P(MountFlagsTest, StricterKeepsItFromEitherSide) {
  EXPECT_EQ(Stricter(With(), MountFlags()), With());
  EXPECT_EQ(Stricter(MountFlags(), With()), With());
}

TEST_P(MountFlagsTest, StricterKeepsAllOthersBesideIt) {
  MountFlags all;
  for (const MountFlagRow& row : MountFlagTable()) Set(all, row);
  const MountFlags merged = Stricter(all, With());
  for (const MountFlagRow& row : MountFlagTable()) {
    EXPECT_TRUE(row.member == nullptr || IsSet(merged, row)) << row.word;
  }
}

TEST_P(MountFlagsTest, OnlyTheDefaultHasNoFlagOnTheCommandLine) {
  EXPECT_EQ(GetParam().command_line.empty(), With() == MountFlags());
}

INSTANTIATE_TEST_SUITE_P(Rows, MountFlagsTest, ::testing::ValuesIn(MountFlagTable().begin(), MountFlagTable().end()),
                         [](const auto& test) { return std::string(test.param.word); });

TEST(MountFlagTableTest, HasARowForEachMember) {
  MountFlags flags;
  for (const MountFlagRow& row : MountFlagTable()) Set(flags, row);
  const auto& [read_only, nosuid, nodev, noexec, nodiratime, nosymfollow, atime] =
      flags;  // a new member needs a row and a name here
  EXPECT_TRUE(read_only && nosuid && nodev && noexec && nodiratime && nosymfollow);
  EXPECT_EQ(atime, Atime::kStrictatime);
}

TEST(MountFlagTableTest, AccessTimesAreThoseAskedForUnlessTheDefaultIs) {
  const MountFlags relatime, noatime = {.atime = Atime::kNoatime}, strictatime = {.atime = Atime::kStrictatime};
  EXPECT_EQ(Stricter(noatime, strictatime), strictatime);
  EXPECT_EQ(Stricter(strictatime, noatime), noatime);
  EXPECT_EQ(Stricter(noatime, relatime), noatime);
}

// "atime" takes noatime back, and no strictatime.
TEST(MountFlagTableTest, AWordForAccessTimesTakesBackItsOwnOnly) {
  MountFlags flags;
  for (const char* word : {"strictatime", "atime", "norelatime"}) EXPECT_TRUE(ApplyMountFlag(word, flags));
  EXPECT_EQ(flags.atime, Atime::kStrictatime);
}

TEST(MountFlagTableTest, MountInfoWithoutAWordForAccessTimesMeansStrictatime) {
  EXPECT_EQ(FlagsOfMountInfo("ro").atime, Atime::kStrictatime);
}

TEST(MountFlagTableTest, IgnoresUnknownWordsOfMountInfo) {
  EXPECT_EQ(ToString(FlagsOfMountInfo("rw,nosuid,unknown,relatime")), "rw,nosuid,relatime");
}

}  // namespace
}  // namespace mooring::testing
