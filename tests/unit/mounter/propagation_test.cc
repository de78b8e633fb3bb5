#include "mounter/propagation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "tests/support/status_matchers.h"

namespace mooring::testing {
namespace {

void ExpectAll(const std::vector<std::string_view>& words, Propagation propagation) {
  for (const std::string_view word : words) {
    const auto parsed = ParsePropagation(word);
    ASSERT_OK(parsed) << word;
    EXPECT_EQ(*parsed, propagation) << word;
  }
}

TEST(PropagationWordsTest, WordsOfMountNomadAndKubernetesMeanTheSame) {
  ExpectAll({"inherit"}, Propagation::kInherit);
  ExpectAll({"private", "rprivate", "None"}, Propagation::kPrivate);
  ExpectAll({"slave", "rslave", "host-to-task", "HostToContainer"}, Propagation::kSlave);
  ExpectAll({"shared", "rshared", "bidirectional", "Bidirectional"}, Propagation::kShared);
}

TEST(PropagationWordsTest, EachIsPrintedAsAWordThatIsParsedAgain) {
  for (const Propagation propagation :
       {Propagation::kInherit, Propagation::kPrivate, Propagation::kSlave, Propagation::kShared}) {
    ExpectAll({ToString(propagation)}, propagation);
  }
  EXPECT_EQ(ToString(Propagation::kInherit), "inherit");
  EXPECT_EQ(ToString(Propagation::kPrivate), "private");
  EXPECT_EQ(ToString(Propagation::kSlave), "rslave");
  EXPECT_EQ(ToString(Propagation::kShared), "rshared");
}

TEST(PropagationWordsTest, AnythingElseIsRefusedWithWhatIsAllowed) {
  for (const std::string_view word : {"", "unbindable", "RSLAVE", "none", "hosttocontainer", " rslave", "rslave,ro"}) {
    EXPECT_THAT(ParsePropagation(word), FailsWith(absl::StatusCode::kInvalidArgument, "it is one of inherit, private"))
        << word;
  }
  EXPECT_THAT(ParsePropagation("both\nways"), FailsWith(absl::StatusCode::kInvalidArgument, "'both\\x0aways'"));
}

TEST(PropagationWordsTest, TheErrorNamesEveryWordThereIs) {
  const std::string text = Message(ParsePropagation("x").status());
  for (const std::string_view word : {"inherit", "private", "rprivate", "None", "slave", "rslave", "host-to-task",
                                      "HostToContainer", "shared", "rshared", "bidirectional", "Bidirectional"}) {
    EXPECT_THAT(text, ::testing::HasSubstr(std::string(word)));
  }
}

}  // namespace
}  // namespace mooring::testing
