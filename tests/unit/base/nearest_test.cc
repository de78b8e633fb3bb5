#include "base/text/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mooring {
namespace {

TEST(DidYouMeanTest, NamesTheNearestOfSimilarNames) {
  EXPECT_EQ(DidYouMean("web-2", {"web-1", "db"}), "; did you mean 'web-1'?");
  EXPECT_EQ(DidYouMean("/srv/dbb", {"/srv/web", "/srv/db", "/srv/dab"}), "; did you mean '/srv/db'?");
  EXPECT_EQ(DidYouMean("postgers", {"postgres"}), "; did you mean 'postgres'?");
}

TEST(DidYouMeanTest, IsSilentWithoutASimilarName) {
  for (const std::string& word : std::vector<std::string>{"", "a", "xy", "something", std::string(1000, 'x')}) {
    EXPECT_EQ(DidYouMean(word, {"", "b", "zz", "web-1", std::string(999, 'x')}), "") << word;
  }
  EXPECT_EQ(DidYouMean("web-1", {}), "");
}

}  // namespace
}  // namespace mooring
