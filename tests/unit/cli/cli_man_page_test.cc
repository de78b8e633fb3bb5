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

std::string Help(std::vector<std::string> command) {
  command.emplace_back("--help");
  return Mooring(command).out;
}

std::vector<std::string> Subcommands(const std::vector<std::string>& command) {
  const std::string help = Help(command);
  const std::size_t list = help.find("Subcommands:\n");
  return list == std::string::npos ? std::vector<std::string>() : Matches(help.substr(list), "\n  ([a-z-]+) ");
}

TEST(ManPageTest, IsWellFormed) {
  mooring::testing::ExpectWellFormed("mooring.8");
  mooring::testing::ExpectWellFormed("mount.csi.8");
}

void ExpectCommand(const std::string& page, const std::vector<std::string>& command) {
  if (!command.empty()) {
    EXPECT_TRUE(HasWord(page, command.back())) << command.back();
  }
  const bool flags_elsewhere = !command.empty() && command.front() == "csi";  // in docs/cli.md
  if (!flags_elsewhere) mooring::testing::ExpectFlags(page, Help(command));
  for (const std::string& below : Subcommands(command)) {
    std::vector<std::string> longer = command;
    longer.push_back(below);
    ExpectCommand(page, longer);
  }
}

TEST(ManPageTest, DescribesEveryCommandAndFlag) {
  EXPECT_GE(Subcommands({}).size(), 7U);
  ExpectCommand(mooring::testing::Page("mooring.8"), {});
}

}  // namespace
}  // namespace mooring::cli
