#include "plugin/model/volume_tuning.h"

#include "plugin/backends/registry.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

void ExpectInvalid(const std::string& key, const std::string& value, const std::string& text) {
  const absl::StatusOr<TuningChange> parsed = ParseTuning({{key, value}});
  ASSERT_TRUE(absl::IsInvalidArgument(parsed.status())) << parsed.status() << key << value;
  EXPECT_THAT(Message(parsed.status()), HasSubstr(text));
}

TEST(VolumeTuningTest, SettingsThatAreNotNamedStay) {
  const VolumeTuning before = {.read_ahead_bytes = 8192, .noatime = true};
  EXPECT_EQ(With(before, *ParseTuning({})), before);
  EXPECT_EQ(With(before, *ParseTuning({{"noatime", "false"}})), (VolumeTuning{8192, false}));
  EXPECT_EQ(With(before, *ParseTuning({{"readAhead", "0"}})), (VolumeTuning{0, true}));
  EXPECT_EQ(With(before, *ParseTuning({{"readAhead", "1MiB"}, {"noatime", "true"}})), (VolumeTuning{1 << 20, true}));
}

TEST(VolumeTuningTest, ValuesAreBounded) {
  for (const char* good : {"0", "4096B", "4KiB", "128Ki", "64MiB"}) {
    EXPECT_OK(ParseTuning({{"readAhead", good}})) << good;
  }
  for (const char* bad : {"", "-4096", "4096", "1", "4097", "65MiB", "1e6", "128 KiB", "9223372036854775808", "much"}) {
    ExpectInvalid("readAhead", bad, "readAhead");
  }
  for (const char* bad : {"", "1", "TRUE", "yes"}) ExpectInvalid("noatime", bad, "neither true nor false");
  for (const char* unknown : {"", "readahead", "noAtime", "label.a"}) ExpectInvalid(unknown, "true", "is unknown");
}

TEST(VolumeTuningTest, OnlyVolumesWithADeviceOfTheirOwnHaveReadAhead) {
  const TuningChange ahead = {.read_ahead_bytes = 4096}, quiet = {.noatime = true};
  EXPECT_OK(CheckPossible(ahead, TraitsOf(BackendKind::kImage)));
  for (const BackendKind kind : {BackendKind::kDirectory, BackendKind::kDevice, BackendKind::kTmpfs}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckPossible(ahead, TraitsOf(kind))));
    EXPECT_OK(CheckPossible(quiet, TraitsOf(kind)));
  }
}

TEST(VolumeTuningTest, TextsAreReadAgain) {
  for (const VolumeTuning& tuning : {VolumeTuning{0, false}, {4096, false}, {0, true}, {64 << 20, true}}) {
    EXPECT_EQ(TuningIn(ToText(tuning)), tuning) << ToText(tuning);
  }
  EXPECT_EQ(ToText(VolumeTuning()), "") << "no record of what never changed";
  const VolumeTuning made = {4096, true, {{.uid = 999, .mode = 0750}, {.inode_size = 512}}};
  EXPECT_EQ(ToText(made), "noatime readAhead=4096 uid=999 mode=0750 inodeSize=512");
  EXPECT_EQ(TuningIn(ToText(made)), made);
  for (const OnDelete on_delete : {OnDelete::kDelete, OnDelete::kRetain, OnDelete::kArchive}) {
    const VolumeTuning kept = {.making = {.on_delete = on_delete}};
    EXPECT_EQ(TuningIn(ToText(kept)), kept) << ToText(kept);
  }
  VolumeTuning mapped = made;
  mapped.idmap = "u:0:100000:65536 g:0:200000:65536";
  EXPECT_EQ(ToText(mapped), ToText(made) + " idmap=u:0:100000:65536,g:0:200000:65536");
  EXPECT_EQ(TuningIn(ToText(mapped)), mapped);
  EXPECT_EQ(With(mapped, *ParseTuning({{"noatime", "false"}})).idmap, mapped.idmap);
  EXPECT_EQ(TuningIn("colour=blue noatime readAhead=x readAhead"), (VolumeTuning{0, true})) << "a newer program's";
}

}  // namespace
}  // namespace mooring::testing
