// Functions for tests of docs/man. The source that includes it defines MOORING_SOURCE_DIR.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace mooring::testing {

inline std::string PagePath(const std::string& name) { return MOORING_SOURCE_DIR "/docs/man/" + name; }

inline std::string Page(const std::string& name) {
  std::ifstream file(PagePath(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> Matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> matches;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) matches.push_back((*at)[1]);
  return matches;
}

inline bool HasWord(const std::string& page, const std::string& word) {
  const auto ends = [&](std::size_t at) { return at >= page.size() || page[at] == ' ' || page[at] == '\n'; };
  for (std::size_t at = page.find(word); at != std::string::npos; at = page.find(word, at + 1)) {
    if ((at == 0 || ends(at - 1)) && ends(at + word.size())) return true;
  }
  return false;
}

// The page names each flag of `help`. mdoc(7) writes a flag with one dash less.
inline void ExpectFlags(const std::string& page, const std::string& help) {
  for (const std::string& flag : Matches(help, "\n  (?:-.,)?-(-[a-z-]+)")) {
    if (flag == "-help" || flag == "-version") continue;
    EXPECT_TRUE(HasWord(page, flag)) << "-" << flag << " of:\n" << help.substr(0, help.find('\n'));
  }
}

inline void ExpectVariables(const std::string& page, const std::string& help) {
  const std::vector<std::string> names = Matches(help, "\\(Env:([A-Z_]+)\\)");
  EXPECT_GT(names.size(), 10U) << help;
  for (const std::string& name : names) EXPECT_TRUE(HasWord(page, name)) << name;
}

inline void ExpectWellFormed(const std::string& path) {
  if (std::system("command -v mandoc >/dev/null") != 0) GTEST_SKIP() << "mandoc is not installed";
  EXPECT_EQ(std::system(("mandoc -Tlint -Wwarning " + path).c_str()), 0);
}

}  // namespace mooring::testing
