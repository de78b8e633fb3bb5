// docs/mount-options.tsv says what the parsers of options say. tests/kernel/mount/mount_option_table_test.cc compares
// it with the kernel and mount(8).
#include "tests/support/mount_option_table.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/status.h"
#include "mounter/mount_options.h"
#include "plugin/config/pool_config.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

constexpr std::array kFilesystems = {"ext4", "xfs", "btrfs", "tmpfs"};

std::vector<MountOptionRow> RowsOf(const std::string& fs_type) {
  std::vector<MountOptionRow> rows = MountOptionTable();
  std::erase_if(rows, [&fs_type](const MountOptionRow& row) { return !row.IsFor(fs_type); });
  return rows;
}

// How a list of mount flags with this option is parsed, as the table calls it.
std::string Parsed(const std::string& fs_type, const std::string& option) {
  const absl::StatusOr<MountOptions> parsed = ParseMountFlags(fs_type, {option});
  if (!parsed.ok()) return "refuses";
  if (!parsed->options.empty()) return "passes";
  MountFlags flags;
  const bool is_flag = option != "defaults" && ApplyMountFlag(option, flags);
  return is_flag || parsed->flags != MountFlags() ? "attribute" : "ignores";
}

TEST(MountOptionTableTest, EachRowIsWhatTheParserDoes) {
  for (const char* fs_type : kFilesystems) {
    for (const MountOptionRow& row : RowsOf(fs_type)) {
      const std::string expected = row.by_mooring == "command line" ? "refuses" : row.by_mooring;
      EXPECT_EQ(Parsed(fs_type, row.option), expected) << fs_type << " " << row.option;
    }
  }
}

TEST(MountOptionTableTest, EachRowIsCompleteAndNoOptionHasTwo) {
  const std::set<std::string> outcomes = {"attribute", "passes", "ignores", "command line", "refuses"};
  const std::set<std::string> verdicts = {"takes", "refuses", "depends"};
  std::set<std::string> seen;
  for (const MountOptionRow& row : MountOptionTable()) {
    EXPECT_TRUE(outcomes.contains(row.by_mooring)) << row.option;
    EXPECT_TRUE(verdicts.contains(row.by_mount)) << row.option;
    EXPECT_FALSE(row.shown.empty() || row.remark.empty()) << row.option << " has a column without a dash";
    const bool is_stricter = row.by_mooring == "refuses" && row.by_mount != "refuses";
    EXPECT_TRUE(!is_stricter || row.remark.size() > 1) << row.option << " is refused without a reason";
    for (const char* fs_type : {"ext4", "xfs", "btrfs", "tmpfs", "nfs"}) {
      if (!row.IsFor(fs_type)) continue;
      EXPECT_TRUE(seen.insert(std::string(fs_type) + " " + row.option).second) << fs_type << " " << row.option;
    }
  }
}

// The hint in the error for a wrong value: "mount flag 'commit' takes a number from 0 to 900".
std::string ValuesOf(const std::string& fs_type, const MountOptionRow& row) {
  const std::string message = Message(ParseMountFlags(fs_type, {row.Key() + "=!"}).status());
  const std::size_t hint = message.find("' takes ");
  const std::string values = hint == std::string::npos ? message : message.substr(hint + 8);
  return values == "no value" ? "-" : values;
}

TEST(MountOptionTableTest, ValuesAreThoseOfTheError) {
  for (const char* fs_type : kFilesystems) {
    for (const MountOptionRow& row : RowsOf(fs_type)) {
      if (row.by_mooring != "passes") continue;
      EXPECT_EQ(row.values, ValuesOf(fs_type, row)) << fs_type << " " << row.option;
    }
  }
}

TEST(MountOptionTableTest, EachOptionThatMooringTakesHasARow) {
  for (const char* fs_type : kFilesystems) {
    std::set<std::string> keys;
    for (const MountOptionRow& row : RowsOf(fs_type)) keys.insert(row.Key());
    for (const FilesystemOption& option : AllowedOptions(fs_type)) {
      EXPECT_TRUE(keys.contains(option.key)) << fs_type << " " << option.key;
    }
    for (const MountFlagRow& flag : MountFlagTable()) {
      EXPECT_TRUE(keys.contains(std::string(flag.word)) && keys.contains(std::string(flag.opposite))) << flag.word;
    }
  }
}

// The options of a pool. The kernel of the tests may have no NFS, so the rows are checked here alone.
std::string ByPool(const std::string& option) {
  return ParsePools({"name=n,backend=nfs,server=nas,export=/a,options=" + option}).ok() ? "takes" : "refuses";
}

TEST(MountOptionTableTest, AnNfsPoolTakesTheRowsOfNfs) {
  if (!ParsePools({"name=n,backend=nfs,server=nas,export=/a"}).ok()) GTEST_SKIP() << "there is no such backend";
  for (const MountOptionRow& row : RowsOf("nfs")) {
    EXPECT_EQ(ByPool(row.option), row.by_mooring == "refuses" ? "refuses" : "takes") << row.option;
  }
}

}  // namespace
}  // namespace mooring::testing
