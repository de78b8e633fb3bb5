// Reports of lvm 2.03.16, of later releases, and of nobody.
#include "mounter/lvm/lvm_report.h"

#include <fmt/format.h>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

const LvmPool kGroup = {"vgmoor", ""};
const LvmPool kThin = {"vgmoor", "pool"};

constexpr const char* kGroups = R"({
    "report": [
        {
            "vg": [
                {"vg_name":"vgmoor", "vg_uuid":"OvbMz8-1XYN-QjIY-ebhD-sSDw-LINS-w38eiv", "vg_attr":"wz--n-",
                 "vg_size":"310378496", "vg_free":"306184192", "vg_extent_size":"4194304", "vg_missing_pv_count":"0"}
            ]
        }
    ]
}
)";

// The format json_std has numbers and arrays.
constexpr const char* kGroupsOfNumbers =
    R"({"report":[{"vg":[{"vg_name":"vgmoor","vg_uuid":"Ovb","vg_attr":"wz--n-","vg_size":310378496,)"
    R"("vg_free":306184192,"vg_extent_size":4194304,"vg_missing_pv_count":0}]}],"log":[]})";

std::string Volumes(const std::string& rows) { return R"({"report": [{"lv": [)" + rows + "]}]}\n"; }

struct Row {
  std::string name, tags, attributes = "-wi-a-----", pool = {}, health = {}, data = {}, metadata = {};
  std::string bytes = "4194304";
};

std::string Text(const Row& row) {
  return fmt::format(
      R"({{"lv_name":"{}", "lv_tags":"{}", "lv_size":"{}", "lv_attr":"{}", "pool_lv":"{}", "data_percent":"{}", )"
      R"("metadata_percent":"{}", "lv_health_status":"{}"}})",
      row.name, row.tags, row.bytes, row.attributes, row.pool, row.data, row.metadata, row.health);
}

Row Pool() {
  return {.name = "pool",
          .tags = "",
          .attributes = "twi-aotz--",
          .data = "12.50",
          .metadata = "10.00",
          .bytes = "67108864"};
}

std::string PoolText(const Row& pool) {
  return Volumes(Text(pool) + "," + Text({"vol-1", "mooring", "Vwi-a-tz--", "pool"}));
}

TEST(LvmReportTest, GroupTellsItsRoomAndItsVolumes) {
  const auto state = ParseLvmState(kGroups,
                                   Volumes(Text({"vol-ab12", "mooring,mooring_cleared_4194304", "-wi-ao----"}) + "," +
                                           Text({"vol-new", "mooring,mooring_new", "-wi-------"})),
                                   kGroup);
  ASSERT_OK(state);
  EXPECT_EQ(state->report.bytes, 310378496U);
  EXPECT_EQ(state->report.free_bytes, 306184192U);
  EXPECT_EQ(state->report.extent_bytes, 4194304U);
  EXPECT_EQ(state->report.problem, "");
  ASSERT_THAT(state->report.volumes, SizeIs(2));
  const LogicalVolume& first = state->report.volumes[0];
  EXPECT_EQ(first.name, "vol-ab12");
  EXPECT_EQ(first.bytes, 4194304U);
  EXPECT_TRUE(first.is_cleared && first.is_active && first.is_open && !first.is_new);
  const LogicalVolume& second = state->report.volumes[1];
  EXPECT_TRUE(second.is_new && !second.is_cleared && !second.is_active && !second.is_open);
}

TEST(LvmReportTest, NumbersAndArraysOfLaterReleasesAreRead) {
  const auto state =
      ParseLvmState(kGroupsOfNumbers,
                    Volumes(R"({"lv_name":"pool","lv_tags":[],"lv_size":67108864,"lv_attr":"twi-aotz--","pool_lv":"",)"
                            R"("data_percent":12.5,"metadata_percent":10,"lv_health_status":""},)"
                            R"({"lv_name":"vol-1","lv_tags":["mooring"],"lv_size":8388608,"lv_attr":"Vwi---tz-k",)"
                            R"("pool_lv":"pool","data_percent":null,"metadata_percent":null,"lv_health_status":""})"),
                    kThin);
  ASSERT_OK(state);
  EXPECT_EQ(state->report.free_bytes, 58720256U);
  EXPECT_EQ(state->report.data_percent, 12.5);
  ASSERT_THAT(state->report.volumes, SizeIs(1));
  EXPECT_EQ(state->report.volumes[0].bytes, 8388608U);
}

TEST(LvmReportTest, ThinPoolTellsItsOwnRoom) {
  const auto state = ParseLvmState(kGroups, PoolText(Pool()), kThin);
  ASSERT_OK(state);
  EXPECT_EQ(state->report.bytes, 67108864U);
  EXPECT_EQ(state->report.free_bytes, 58720256U);
  EXPECT_EQ(state->report.metadata_percent, 10);
  EXPECT_TRUE(state->report.zeroes);
  EXPECT_TRUE(state->is_thin_pool_active);
  EXPECT_EQ(state->report.problem, "");
  EXPECT_TRUE(state->report.volumes.at(0).is_cleared) << "by the pool";
}

TEST(LvmReportTest, ThinPoolThatDoesNotZeroClearsNoVolume) {
  Row pool = Pool();
  pool.attributes = "twi-aot---";
  const auto state = ParseLvmState(kGroups, PoolText(pool), kThin);
  ASSERT_OK(state);
  EXPECT_FALSE(state->report.zeroes);
  EXPECT_FALSE(state->report.volumes.at(0).is_cleared);
}

TEST(LvmReportTest, ThinPoolWithoutADeviceTellsNoUsage) {
  Row pool = Pool();
  pool.attributes = "twi---tz--";
  pool.data = pool.metadata = "";
  const auto state = ParseLvmState(kGroups, PoolText(pool), kThin);
  ASSERT_OK(state);
  EXPECT_FALSE(state->is_thin_pool_active);
  EXPECT_EQ(state->report.data_percent, 0);
}

TEST(LvmReportTest, OnlyVolumesOfMooringInThisPoolAreListed) {
  const std::string rows = Text(Pool()) + "," + Text({"vol-thin", "mooring", "Vwi-a-tz--", "pool"}) + "," +
                           Text({"vol-other", "mooring", "Vwi-a-tz--", "pool2"}) + "," +
                           Text({"vol-thick", "mooring"}) + "," + Text({"vol-foreign", "not_mooring"}) + "," +
                           Text({"root", "mooring"});
  const auto thin = ParseLvmState(kGroups, Volumes(rows), kThin);
  ASSERT_OK(thin);
  ASSERT_THAT(thin->report.volumes, SizeIs(1));
  EXPECT_EQ(thin->report.volumes[0].name, "vol-thin");
  EXPECT_THAT(thin->other_names, UnorderedElementsAre("pool", "vol-other", "vol-thick", "vol-foreign", "root"));
  const auto thick = ParseLvmState(kGroups, Volumes(rows), kGroup);
  ASSERT_OK(thick);
  ASSERT_THAT(thick->report.volumes, SizeIs(1));
  EXPECT_EQ(thick->report.volumes[0].name, "vol-thick");
}

TEST(LvmReportTest, ThickVolumeIsClearedIfAllItsBytesAre) {
  for (const auto& [tag, cleared] : std::vector<std::pair<std::string, bool>>{{"mooring_cleared_4194304", true},
                                                                              {"mooring_cleared_8388608", true},
                                                                              {"mooring_cleared_4194303", false},
                                                                              {"mooring_cleared_0", false},
                                                                              {"mooring_clearedx", false},
                                                                              {"mooring_raw", false}}) {
    const auto state = ParseLvmState(kGroups, Volumes(Text({"vol-1", "mooring," + tag})), kGroup);
    ASSERT_OK(state);
    EXPECT_EQ(state->report.volumes.at(0).is_cleared, cleared) << tag;
    EXPECT_EQ(state->volumes.at(0).cleared_bytes.has_value(), tag.starts_with("mooring_cleared_")) << tag;
  }
}

TEST(LvmReportTest, TellsAnInterruptedGrowthFromSomebodyElsesLvextend) {
  for (const auto& [tags, growing, enlarged] :
       std::vector<std::tuple<std::string, bool, bool>>{{"mooring_cleared_4194303,mooring_growing", true, false},
                                                        {"mooring_cleared_4194304,mooring_growing", false, false},
                                                        {"mooring_cleared_4194303", false, true},
                                                        {"mooring_growing", false, false}}) {
    const auto state = ParseLvmState(kGroups, Volumes(Text({"vol-1", "mooring," + tags})), kGroup);
    ASSERT_OK(state);
    EXPECT_EQ(state->report.volumes.at(0).is_growing, growing) << tags;
    EXPECT_EQ(state->report.volumes.at(0).is_enlarged, enlarged) << tags;
  }
}

TEST(LvmReportTest, TellsAVolumeThatHasSnapshots) {
  const auto state = ParseLvmState(
      kGroups, Volumes(Text({"vol-1", "mooring", "owi-a-s---"}) + "," + Text({"vol-2", "mooring", "-wi-a-----"})),
      kGroup);
  ASSERT_OK(state);
  EXPECT_TRUE(state->volumes.at(0).has_dependents);
  EXPECT_FALSE(state->volumes.at(1).has_dependents);
}

TEST(LvmReportTest, TagWithoutANumberIsAnErrorOfAThickVolume) {
  for (const std::string tag :
       {"mooring_cleared_", "mooring_cleared_x", "mooring_cleared_-1", "mooring_cleared_99999999999999999999"}) {
    EXPECT_THAT(ParseLvmState(kGroups, Volumes(Text({"vol-1", "mooring," + tag})), kGroup),
                FailsWith(StatusCode::kInternal, "lvchange --deltag"));
    const std::string thin = Text(Pool()) + "," + Text({"vol-1", "mooring," + tag, "Vwi-a-tz--", "pool"});
    EXPECT_OK(ParseLvmState(kGroups, Volumes(thin), kThin)) << "a thin volume is not cleared";
  }
}

TEST(LvmReportTest, TagTellsThatATaskHadTheVolumeAsARawDevice) {
  const auto state = ParseLvmState(
      kGroups, Volumes(Text({"vol-1", "mooring,mooring_raw"}) + "," + Text({"vol-2", "mooring"})), kGroup);
  ASSERT_OK(state);
  EXPECT_TRUE(state->report.volumes.at(0).is_raw);
  EXPECT_FALSE(state->report.volumes.at(1).is_raw);
}

TEST(LvmReportTest, SuspendedVolumeIsNotActive) {
  const auto state = ParseLvmState(kGroups, Volumes(Text({"vol-1", "mooring", "-wi-s-----"})), kGroup);
  ASSERT_OK(state);
  EXPECT_TRUE(state->volumes.at(0).is_suspended);
  EXPECT_FALSE(state->report.volumes.at(0).is_active);
}

TEST(LvmReportTest, SuspendedDevicesOfMooringAreListedAndThePoolFirst) {
  Row pool = Pool();
  pool.attributes = "twi-sotz--";
  const std::string rows = Text({"vol-1", "mooring", "Vwi-sotz--", "pool"}) + "," + Text(pool) + "," +
                           Text({"vol-2", "mooring", "Vwi-aotz--", "pool"}) + "," +
                           Text({"snap-3", "mooring,mooring_new", "Vwi-Sotz--", "pool"}) + "," +
                           Text({"other", "", "-wi-so----"});
  const auto state = ParseLvmState(kGroups, Volumes(rows), kThin);
  ASSERT_OK(state);
  EXPECT_THAT(SuspendedIn(*state, kThin), ElementsAre("vgmoor/pool", "vgmoor/vol-1", "vgmoor/snap-3"));
  const auto quiet = ParseLvmState(kGroups, PoolText(Pool()), kThin);
  ASSERT_OK(quiet);
  EXPECT_THAT(SuspendedIn(*quiet, kThin), IsEmpty());
}

// "vgs -S" also reads other groups, and fails if one of them is broken.
TEST(LvmReportTest, ReportThatShowsTheGroupCountsAlsoIfLvmFailed) {
  const CommandResult failed = {.exit_code = 5, .output = "Volume group other is inconsistent. repair it"};
  const std::string none = R"({"report": [{"vg": []}]})";
  EXPECT_OK(CheckGroupReport("look at it", {.json = kGroups, .result = failed}, kGroup));
  for (const std::string& text : {none, std::string()}) {
    EXPECT_THAT(CheckGroupReport("look at it", {.json = text, .result = failed}, kGroup),
                FailsWith(StatusCode::kFailedPrecondition, "look at it: lvm ended with 5: 'Volume group other"));
  }
  EXPECT_THAT(CheckGroupReport("look at it", {.json = none, .result = {}}, kGroup),
              FailsWith(StatusCode::kUnavailable, "is not there"));
  EXPECT_THAT(CheckGroupReport("look at it", {.json = "", .result = {}}, kGroup),
              FailsWith(StatusCode::kInternal, "not as expected"));
}

TEST(LvmReportTest, VolumeIsFoundOnlyWhenItIsFinished) {
  const auto state = ParseLvmState(
      kGroups, Volumes(Text({"vol-1", "mooring"}) + "," + Text({"vol-2", "mooring,mooring_new"})), kGroup);
  ASSERT_OK(state);
  EXPECT_NE(FindFinished(*state, "vol-1"), nullptr);
  EXPECT_EQ(FindFinished(*state, "vol-2"), nullptr);
  EXPECT_EQ(FindFinished(*state, "vol-3"), nullptr);
}

struct ProblemCase {
  const char* test;
  Row pool;
  const char* problem;
};

class LvmProblemTest : public ::testing::TestWithParam<ProblemCase> {};

TEST_P(LvmProblemTest, SaysWhatIsWrongAndWhatToDo) {
  const auto state = ParseLvmState(kGroups, PoolText(GetParam().pool), kThin);
  ASSERT_OK(state);
  EXPECT_THAT(state->report.problem, HasSubstr(GetParam().problem));
  EXPECT_THAT(state->report.problem, HasSubstr("vgmoor/pool"));
}

Row PoolWith(const std::string& data, const std::string& metadata, const std::string& health = "",
             const std::string& attributes = "twi-aotz--") {
  Row pool = Pool();
  pool.data = data;
  pool.metadata = metadata;
  pool.health = health;
  pool.attributes = attributes;
  return pool;
}

INSTANTIATE_TEST_SUITE_P(
    Pools, LvmProblemTest,
    ::testing::Values(ProblemCase{"FullData", PoolWith("95.00", "1"), "lvextend -L"},
                      ProblemCase{"NoDataLeft", PoolWith("100.00", "1", "out_of_data", "twi-aotzD-"), "is full"},
                      ProblemCase{"FullMetadata", PoolWith("1", "90.01"), "lvextend --poolmetadatasize"},
                      ProblemCase{"Failed", PoolWith("", "", "failed", "twi-aotzF-"), "lvconvert --repair"},
                      ProblemCase{"ReadOnlyMetadata", PoolWith("1", "1", "metadata_read_only", "twi-aotzM-"),
                                  "lvconvert --repair"},
                      ProblemCase{"NeedsCheck", PoolWith("1", "1", "", "twi-cotz--"), "needs a check"},
                      ProblemCase{"Suspended", PoolWith("1", "1", "", "twi-sotz--"), "lvchange --refresh"},
                      ProblemCase{"MissingDisk", PoolWith("1", "1", "partial", "twi-aotzp-"), "connect it"}),
    [](const auto& test) { return std::string(test.param.test); });

TEST(LvmReportTest, MissingDiskIsAProblemOfTheGroup) {
  std::string groups = kGroups;
  const std::string none = R"("vg_missing_pv_count":"0")";
  groups.replace(groups.find(none), none.size(), R"("vg_missing_pv_count":"2")");
  const auto state = ParseLvmState(groups, Volumes(""), kGroup);
  ASSERT_OK(state);
  EXPECT_EQ(state->missing_disks, 2U);
  EXPECT_THAT(state->report.problem, HasSubstr("2 of the disks of volume group 'vgmoor' are missing"));
}

TEST(LvmReportTest, MissingGroupOrThinPoolMayComeBack) {
  EXPECT_THAT(ParseLvmState(R"({"report": [{"vg": []}]})", Volumes(""), kGroup),
              FailsWith(StatusCode::kUnavailable,
                        "volume group 'vgmoor' is not there: connect its disks. If this host has a devices file"));
  EXPECT_THAT(ParseLvmState(kGroups, Volumes(""), kThin),
              FailsWith(StatusCode::kUnavailable, "thin pool vgmoor/pool is not there"));
  EXPECT_THAT(ParseLvmState(kGroups, Volumes(Text({"pool", ""})), kThin),
              FailsWith(StatusCode::kFailedPrecondition, "no thin pool"));
}

TEST(LvmReportTest, TwoGroupsOfOneNameAreToldApartByTheirUuids) {
  const std::string twice =
      R"({"report": [{"vg": [{"vg_name":"vgmoor", "vg_uuid":"Fwnu1l"}, {"vg_name":"vgmoor", "vg_uuid":"OvbMz8"}]}]})";
  EXPECT_THAT(ParseLvmState(twice, Volumes(""), kGroup),
              FailsWith(StatusCode::kFailedPrecondition, "'Fwnu1l' and 'OvbMz8'. Rename all but one: vgrename"));
}

TEST(LvmReportTest, TextThatIsNoReportIsAnError) {
  for (const std::string text :
       {"", "null", "[]", "{", "{}", "\xff\xfe", R"({"report": 1})", R"({"report": []})", R"({"report": [1]})",
        R"({"report": [{}]})", R"({"report": [{"lv": 1, "vg": 1}]})", R"({"report": [{"lv": [1], "vg": [1]}]})",
        R"({"report": [{"lv": [{}], "vg": [{}]}]})", R"({"report": [{"lv": [[]], "vg": [null]}]})"}) {
    EXPECT_THAT(ParseLvmState(text, Volumes(""), kGroup), FailsWith(StatusCode::kInternal, "not as expected")) << text;
    EXPECT_THAT(ParseLvmState(kGroups, text, kGroup), FailsWith(StatusCode::kInternal, "not as expected")) << text;
  }
  EXPECT_THAT(ParseLvmState(std::string(100000, '['), Volumes(""), kGroup),
              FailsWith(StatusCode::kInternal, "not as expected"));
}

TEST(LvmReportTest, ValueOfAnotherKindIsAnError) {
  const std::string volumes = Volumes(Text({"vol-1", "mooring"}));
  for (const auto& [good, bad] : std::vector<std::pair<std::string, std::string>>{
           {R"("lv_size":"4194304")", R"("lv_size":"4194304B")"},
           {R"("lv_size":"4194304")", R"("lv_size":"-1")"},
           {R"("lv_size":"4194304")", R"("lv_size":-1)"},
           {R"("lv_size":"4194304")", R"("lv_size":4.5)"},
           {R"("lv_size":"4194304")", R"("lv_size":"99999999999999999999")"},
           {R"("lv_size":"4194304")", R"("lv_size":{})"},
           {R"("lv_attr":"-wi-a-----")", R"("lv_attr":"-wi")"},
           {R"("lv_attr":"-wi-a-----")", R"("lv_attr":7)"},
           {R"("lv_tags":"mooring")", R"("lv_tags":[1])"},
           {R"("lv_name":"vol-1")", R"("lv_name":null)"},
           {R"("pool_lv":"")", R"("pool":"")"}}) {
    std::string changed = volumes;
    changed.replace(changed.find(good), good.size(), bad);
    EXPECT_THAT(ParseLvmState(kGroups, changed, kGroup), FailsWith(StatusCode::kInternal, "not as expected")) << bad;
  }
  for (const std::string percent : {"nan", "-1", "101", "inf", "x"}) {
    EXPECT_THAT(ParseLvmState(kGroups, PoolText(PoolWith(percent, "1")), kThin),
                FailsWith(StatusCode::kInternal, "not as expected"))
        << percent;
  }
  std::string groups = kGroups;
  const std::string extent = R"("vg_extent_size":"4194304")";
  groups.replace(groups.find(extent), extent.size(), R"("vg_extent_size":"0")");
  EXPECT_THAT(ParseLvmState(groups, volumes, kGroup), FailsWith(StatusCode::kInternal, "not as expected"));
}

}  // namespace
}  // namespace mooring::testing
