// mooring-plugin.8 is well formed, and tells of every flag and variable that the program has.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/status.h"
#include "plugin/config/config.h"
#include "tests/support/man_page.h"

namespace mooring {
namespace {

std::string Help() {
  const std::array arguments = {"mooring-plugin", "--help"};
  return Message(ParseConfig(static_cast<int>(arguments.size()), arguments.data()).status());
}

TEST(PluginManPageTest, IsWellFormed) { mooring::testing::ExpectWellFormed("mooring-plugin.8"); }

TEST(PluginManPageTest, TellsOfEveryFlag) {
  const std::string page = mooring::testing::Page("mooring-plugin.8");
  EXPECT_EQ(mooring::testing::Matches(Help(), "\\(Env:([A-Z_]+)\\)").size(), 23U);
  mooring::testing::ExpectFlags(page, Help());
  mooring::testing::ExpectVariables(page, Help());
}

}  // namespace
}  // namespace mooring
