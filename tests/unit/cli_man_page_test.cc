// docs/man/ is well formed, and mooring.8 tells of every command and flag that the program has.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cli/testing/run_mooring.h"

namespace mooring::cli {
namespace {

constexpr char kPage[] = MOORING_SOURCE_DIR "/docs/man/mooring.8";

std::string Page() {
  std::ifstream file(kPage, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> Matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> matches;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) matches.push_back((*at)[1]);
  return matches;
}

std::string Help(std::vector<std::string> command) {
  command.emplace_back("--help");
  return Mooring(command).out;
}

std::vector<std::string> Subcommands(const std::vector<std::string>& command) {
  const std::string help = Help(command);
  const std::size_t list = help.find("Subcommands:\n");
  return list == std::string::npos ? std::vector<std::string>() : Matches(help.substr(list), "\n  ([a-z-]+) ");
}

bool HasWord(const std::string& page, const std::string& word) {
  return std::regex_search(page, std::regex("(^|[ \n])" + word + "($|[ \n])"));
}

void ExpectFlags(const std::string& page, const std::vector<std::string>& command) {
  for (const std::string& flag : Matches(Help(command), "\n  (?:-.,)?-(-[a-z-]+)")) {
    if (flag == "-help" || flag == "-version") continue;
    EXPECT_TRUE(HasWord(page, flag)) << testing::PrintToString(command) << " -" << flag;
  }
}

TEST(ManPageTest, IsWellFormed) {
  if (std::system("command -v mandoc >/dev/null") != 0) GTEST_SKIP() << "mandoc is not installed";
  EXPECT_EQ(std::system((std::string("mandoc -Tlint -Wwarning ") + kPage).c_str()), 0);
  EXPECT_EQ(std::system("mandoc -Tlint -Wwarning " MOORING_SOURCE_DIR "/docs/man/mount.csi.8"), 0);
}

void ExpectCommand(const std::string& page, const std::vector<std::string>& command) {
  if (!command.empty()) {
    EXPECT_TRUE(HasWord(page, command.back())) << command.back();
  }
  const bool flags_elsewhere = !command.empty() && command.front() == "csi";  // in docs/cli.md
  if (!flags_elsewhere) ExpectFlags(page, command);
  for (const std::string& below : Subcommands(command)) {
    std::vector<std::string> longer = command;
    longer.push_back(below);
    ExpectCommand(page, longer);
  }
}

TEST(ManPageTest, TellsOfEveryCommandAndFlag) {
  EXPECT_GE(Subcommands({}).size(), 7U);
  ExpectCommand(Page(), {});
}

}  // namespace
}  // namespace mooring::cli
