// mooring-manager.8 is well formed, and tells of every flag and variable that the program has.
#include <gtest/gtest.h>

#include <array>
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

TEST(ManagerManPageTest, IsWellFormed) { mooring::testing::ExpectWellFormed("mooring-manager.8"); }

TEST(ManagerManPageTest, TellsOfEveryFlag) {
  const std::string page = mooring::testing::Page("mooring-manager.8");
  EXPECT_EQ(mooring::testing::Matches(Help(), "\\(Env:([A-Z_]+)\\)").size(), 14U);
  mooring::testing::ExpectFlags(page, Help());
  mooring::testing::ExpectVariables(page, Help());
}

}  // namespace
}  // namespace mooring::manager
