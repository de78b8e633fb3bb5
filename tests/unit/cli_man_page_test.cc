// docs/man/mooring.8 is well formed, and tells of every command and flag that the program has.
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
    EXPECT_TRUE(HasWord(page, flag)) << command.back() << " -" << flag;
  }
}

TEST(ManPageTest, IsWellFormed) {
  if (std::system("command -v mandoc >/dev/null") != 0) GTEST_SKIP() << "mandoc is not installed";
  EXPECT_EQ(std::system((std::string("mandoc -Tlint -Wwarning ") + kPage).c_str()), 0);
}

TEST(ManPageTest, TellsOfEveryCommandAndFlag) {
  const std::string page = Page();
  const std::vector<std::string> commands = Subcommands({});
  EXPECT_GE(commands.size(), 7U);
  for (const std::string& command : commands) {
    EXPECT_TRUE(HasWord(page, command)) << command;
    for (const std::string& below : Subcommands({command})) {
      EXPECT_TRUE(HasWord(page, below)) << command << ' ' << below;
      if (command != "csi") ExpectFlags(page, {command, below});  // those of csi are in docs/cli.md
    }
    if (command != "csi") ExpectFlags(page, {command});
  }
}

}  // namespace
}  // namespace mooring::cli
