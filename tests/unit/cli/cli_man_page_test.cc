// docs/man/ is well formed, and mooring.8 describes every command and flag of the program.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/man_page.h"
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

TEST(ManPageTest, IsWellFormed) {
  mooring::testing::ExpectWellFormed("mooring.8");
  mooring::testing::ExpectWellFormed("mount.csi.8");
}

// `command` is empty, or begins with a blank: " volume create".
void ExpectCommand(const std::string& page, const std::string& command) {
  const bool flags_elsewhere = command.starts_with(" csi");  // in docs/cli.md
  if (!flags_elsewhere) mooring::testing::ExpectFlags(page, Help(command));
  for (const std::string& below : Subcommands(command)) {
    EXPECT_TRUE(HasWord(page, below)) << below;
    ExpectCommand(page, command + " " + below);
  }
}

TEST(ManPageTest, DescribesEveryCommandAndFlag) {
  EXPECT_GE(Subcommands("").size(), 7U);
  ExpectCommand(mooring::testing::Page("mooring.8"), "");
}

}  // namespace
}  // namespace mooring::cli
