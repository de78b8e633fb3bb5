// mooring-manager.8 and docs/manager.md name every flag of the program, and the man page is well formed.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "base/status.h"
#include "manager/config.h"
#include "tests/support/man_page.h"

namespace mooring::manager {
namespace {

std::string Help() {
  const std::array arguments = {"mooring-manager", "--help"};
  return Message(ParseConfig(static_cast<int>(arguments.size()), arguments.data()).status());
}

TEST(ManagerManPageTest, IsWellFormed) {
  mooring::testing::ExpectWellFormed(mooring::testing::PagePath("mooring-manager.8"));
}

TEST(ManagerManPageTest, NamesEveryFlagAndVariable) {
  const std::string page = mooring::testing::Page("mooring-manager.8");
  mooring::testing::ExpectFlags(page, Help());
  mooring::testing::ExpectVariables(page, Help());
}

TEST(ManagerPageTest, NamesEveryFlag) {
  std::ifstream file(std::string(MOORING_SOURCE_DIR) + "/docs/manager.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  std::set<std::string> named;
  for (const std::string& row : mooring::testing::Matches(page, "\n\\| (`--[^|]*) \\|")) {
    for (const std::string& flag : mooring::testing::Matches(row, "`(--[a-z-]+)`")) named.insert(flag);
  }
  const auto flags = mooring::testing::Matches(Help(), "\n\\s*(?:-h,)?(--[a-z-]+)");
  EXPECT_EQ(named, std::set<std::string>(flags.begin(), flags.end()));
}

}  // namespace
}  // namespace mooring::manager
