// Messages of lvm 2.03, and the errors that they become.
#include "mounter/lvm/lvm_words.h"

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

struct WordsCase {
  const char* test;
  const char* output;
  StatusCode code;
  const char* advice;
};

class LvmWordsTest : public ::testing::TestWithParam<WordsCase> {};

TEST_P(LvmWordsTest, TellWhatFailedAndWhatToDo) {
  const absl::Status status =
      LvmFailure("grow the logical volume vg/vol-1", {.exit_code = 5, .output = GetParam().output});
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith("grow the logical volume vg/vol-1: lvm ended with 5: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().advice));
  EXPECT_EQ(CodeOfLvmWords(GetParam().output), GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    Messages, LvmWordsTest,
    ::testing::Values(
        WordsCase{"NoRoomForANewVolume",
                  "Volume group \"vgmoor\" has insufficient free space (74 extents): 3072 required.",
                  StatusCode::kResourceExhausted, "vgextend"},
        WordsCase{"NoRoomToGrow", "Insufficient free space: 3068 extents needed, but only 70 available",
                  StatusCode::kResourceExhausted, "vgextend"},
        WordsCase{"NoRoomForTheWholeLayout",
                  "Insufficient suitable allocatable extents for logical volume vol-1: 3 more required",
                  StatusCode::kResourceExhausted, "vgextend"},
        WordsCase{"ThinPoolAboveItsThreshold",
                  "Cannot create new thin volume, free space in thin pool vg/pool reached threshold.",
                  StatusCode::kResourceExhausted, "lvextend"},
        WordsCase{"InUse", "Logical volume vg/vol-1 in use.", StatusCode::kFailedPrecondition, "unpublish"},
        WordsCase{"Mounted", "Logical volume vg/vol-1 contains a filesystem in use.", StatusCode::kFailedPrecondition,
                  "unpublish"},
        WordsCase{"UsedByAnotherDevice", "Logical volume vg/vol-1 is used by another device.",
                  StatusCode::kFailedPrecondition, "unpublish"},
        WordsCase{"NoVolume", "Failed to find logical volume \"vgmoor/nosuch\"", StatusCode::kNotFound, ""},
        WordsCase{"NoVolumeToGrow", "Logical volume vol-ab12 not found in volume group vgmoor.", StatusCode::kNotFound,
                  ""},
        WordsCase{"NoGroup", "Volume group \"nosuch\" not found Cannot process volume group nosuch",
                  StatusCode::kUnavailable, "connect"},
        WordsCase{"MissingDisk", "Cannot change VG vg while PVs are missing. See vgreduce --removemissing.",
                  StatusCode::kUnavailable, "connect"},
        WordsCase{"Locked", "Can't get lock for vg Cannot process volume group vg", StatusCode::kAborted, "call again"},
        WordsCase{"TwoGroups", "Multiple VGs found with the same name: skipping vgmoor",
                  StatusCode::kFailedPrecondition, "vgrename"},
        WordsCase{"NoDeviceMapper", "/dev/mapper/control: open failed: No such device", StatusCode::kFailedPrecondition,
                  "modprobe"},
        WordsCase{"DamagedPool", "Check of pool vg/pool failed (status:1). Manual repair required!",
                  StatusCode::kFailedPrecondition, "lvconvert --repair"},
        WordsCase{"NameIsTaken", "Logical Volume \"vol-ab12\" already exists in volume group \"vgmoor\"",
                  StatusCode::kFailedPrecondition, ""},
        WordsCase{"Nothing", "", StatusCode::kFailedPrecondition, ""}),
    [](const auto& test) { return std::string(test.param.test); });

TEST(LvmWordsInUseTest, OnlyUsersOfTheVolumeAreInUse) {
  EXPECT_TRUE(MeansInUse("Logical volume vg/vol-1 in use."));
  EXPECT_TRUE(MeansInUse("device-mapper: remove ioctl on  (254:3) failed: Device or resource busy"));
  EXPECT_FALSE(MeansInUse("Failed to find logical volume \"vg/vol-1\""));
  EXPECT_FALSE(MeansInUse(""));
}

TEST(LvmTellingWordsTest, WarningsAreLeftOut) {
  EXPECT_EQ(TellingWords("  WARNING: PV /dev/sdb in VG vg is missing.\n  Logical volume vg/vol-1 in use.\n"),
            "  Logical volume vg/vol-1 in use.");
  EXPECT_EQ(TellingWords("Please remove the lvm.conf filter, it is ignored with the devices file.\nfirst\n\nsecond\n"),
            "first second");
  EXPECT_EQ(TellingWords("first\nsecond"), "first second");
  EXPECT_EQ(TellingWords(""), "");
}

TEST(LvmTellingWordsTest, WarningsAloneAreKeptAndDecideNothing) {
  const std::string words = TellingWords("WARNING: Couldn't find device with uuid x.\nWARNING: Not enough blocks.\n");
  EXPECT_EQ(words, "WARNING: Couldn't find device with uuid x. WARNING: Not enough blocks.");
  EXPECT_EQ(CodeOfLvmWords(words), StatusCode::kFailedPrecondition);
  EXPECT_THAT(LvmFailure("look", {.exit_code = 5, .output = words}),
              FailsWith(StatusCode::kFailedPrecondition, "find device with uuid x"));
}

TEST(LvmWordsKilledTest, AKilledLvmIsNoAnswer) {
  EXPECT_THAT(LvmFailure("make the logical volume vg/vol-1", {.exit_code = 137, .output = ""}),
              FailsWith(StatusCode::kAborted, "killed by signal 9"));
}

}  // namespace
}  // namespace mooring::testing
