// mooring-plugin.8 is well formed, and names every flag and variable of the program.
#include <array>

#include "plugin/config/config.h"
#include "tests/support/man_page.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

std::string Help() {
  const std::array arguments = {"mooring-plugin", "--help"};
  return Message(ParseConfig(static_cast<int>(arguments.size()), arguments.data()).status());
}

TEST(PluginManPageTest, IsWellFormed) {
  mooring::testing::ExpectWellFormed(mooring::testing::PagePath("mooring-plugin.8"));
}

TEST(PluginManPageTest, NamesEveryFlagAndVariable) {
  const std::string page = mooring::testing::Page("mooring-plugin.8");
  mooring::testing::ExpectFlags(page, Help());
  mooring::testing::ExpectVariables(page, Help());
}

}  // namespace
}  // namespace mooring::testing
