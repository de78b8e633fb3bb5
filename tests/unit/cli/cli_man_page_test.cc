// docs/man/ is well formed, and mooring.8 describes every command and flag of the program.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/man_page.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

using mooring::testing::HasWord;
using mooring::testing::Matches;

std::string Help(const std::string& command) { return RunLine("mooring" + command + " --help").out; }

std::vector<std::string> Subcommands(const std::string& command) {
  const std::string help = Help(command);
  const std::size_t list = help.find("Subcommands:\n");
  return list == std::string::npos ? std::vector<std::string>() : Matches(help.substr(list), "\n  ([a-z-]+) ");
}

// As the build makes it: cli/CMakeLists.txt.
std::string BuiltPage() {
  constexpr std::string_view kPlace = "@COMMANDS@\n";
  std::string page = mooring::testing::Page("mooring.8");
  return page.replace(page.find("\n" + std::string(kPlace)) + 1, kPlace.size(), RunLine("mooring __man_page").out);
}

TEST(ManPageTest, IsWellFormed) {
  const mooring::testing::TempDir dir;
  std::ofstream(dir / "mooring.8") << BuiltPage();
  mooring::testing::ExpectWellFormed(dir / "mooring.8");
  mooring::testing::ExpectWellFormed(mooring::testing::PagePath("mount.csi.8"));
}

// `command` is empty, or begins with a blank: " volume create".
void ExpectCommand(const std::string& page, const std::string& command) {
  mooring::testing::ExpectFlags(page, Help(command));
  for (const std::string& below : Subcommands(command)) {
    EXPECT_TRUE(HasWord(page, below)) << below;
    ExpectCommand(page, command + " " + below);
  }
}

TEST(ManPageTest, DescribesEveryCommandAndFlag) {
  EXPECT_GE(Subcommands("").size(), 7U);
  ExpectCommand(BuiltPage(), "");
}

}  // namespace
}  // namespace mooring::cli
