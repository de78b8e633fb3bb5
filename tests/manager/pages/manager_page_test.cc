// Holds docs/manager.md to the sources: a row for each behaviour of the specification, in its order, each with tests
// that exist and bear its name; and the flags there are.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "manager/config.h"
#include "tests/support/status_matchers.h"

namespace mooring::manager {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::vector<std::string>> Matches(const std::string& text, const std::string& pattern) {
  std::vector<std::vector<std::string>> matches;
  const std::regex regex(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    matches.emplace_back(match->begin(), match->end());
  }
  return matches;
}

// "(a) 1" of the specification is "A1" here; letters without numbers stand alone.
std::vector<std::string> Behaviours() {
  const std::vector<std::pair<char, int>> letters = {{'A', 7}, {'B', 6}, {'C', 4}, {'D', 8}, {'E', 3}, {'F', 9},
                                                     {'G', 0}, {'H', 0}, {'I', 0}, {'J', 4}, {'K', 6}, {'L', 0}};
  std::vector<std::string> behaviours;
  for (const auto& [letter, count] : letters) {
    if (count == 0) behaviours.emplace_back(1, letter);
    for (int i = 1; i <= count; ++i) behaviours.push_back(letter + std::to_string(i));
  }
  return behaviours;
}

// Of the manager alone: the plugin's tests bear letters and numbers of their own, of other behaviours.
std::set<std::string> TestsOfTheManager() {
  std::set<std::string> tests;
  const fs::path folder = fs::path(MOORING_SOURCE_DIR) / "tests";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string file = entry.path().lexically_relative(folder);
    if (entry.path().extension() != ".cc" || file.find("manager") == std::string::npos) continue;
    for (const auto& match : Matches(Read(entry.path()), R"(\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\))")) {
      tests.insert(match[1] + "." + match[2]);
    }
  }
  return tests;
}

class ManagerPageTest : public ::testing::Test {
 protected:
  const std::string page_ = Read(fs::path(MOORING_SOURCE_DIR) / "docs/manager.md");
};

TEST_F(ManagerPageTest, HasARowForEachBehaviourWithTestsThatBearItsName) {
  std::vector<std::string> behaviours;
  const std::set<std::string> tests = TestsOfTheManager();
  for (const auto& row : Matches(page_, R"(\n\| ([A-L]\d?) \| ([^|]+) \| ([^|]*) \|)")) {
    behaviours.push_back(row[1]);
    const auto named = Matches(row[3], "`([^`]+)`");
    EXPECT_THAT(named, Not(IsEmpty())) << row[1] << " is shown by no test";
    for (const auto& test : named) {
      EXPECT_THAT(tests, Contains(test[1])) << row[1];
      EXPECT_NE(test[1].find("." + row[1] + "_"), std::string::npos) << test[1] << " is no test of " << row[1];
    }
  }
  EXPECT_EQ(behaviours, Behaviours());
}

TEST_F(ManagerPageTest, EveryTestThatItNamesExists) {
  const std::set<std::string> tests = TestsOfTheManager();
  for (const auto& test : Matches(page_, R"(`(\w+Test\.\w+)`)")) EXPECT_THAT(tests, Contains(test[1]));
}

TEST_F(ManagerPageTest, NamesTheFlagsThereAre) {
  const char* const arguments[] = {"mooring-manager", "--help"};
  const absl::Status help = ParseConfig(2, arguments).status();
  std::set<std::string> flags;
  for (const auto& flag : Matches(Message(help), R"(\n\s*(?:-h,)?(--[a-z-]+))")) flags.insert(flag[1]);
  std::set<std::string> on_the_page;
  for (const auto& row : Matches(page_, R"(\n\| (`--[^|]*) \|)")) {
    for (const auto& flag : Matches(row[1], "`(--[a-z-]+)`")) on_the_page.insert(flag[1]);
  }
  EXPECT_EQ(on_the_page, flags);
}

}  // namespace
}  // namespace mooring::manager
