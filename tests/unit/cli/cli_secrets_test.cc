#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/secrets.h"
#include "tests/support/temp_dir.h"

namespace mooring::cli {
namespace {

using Pairs = std::map<std::string, std::string>;

Pairs Content(const Secrets& secrets) {
  google::protobuf::Map<std::string, std::string> map;
  secrets.CopyTo(map);
  return {map.begin(), map.end()};
}

class SecretsFileTest : public ::testing::Test {
 protected:
  absl::Status Read(const std::string& content) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
    return secrets_.AddFile(path_);
  }

  mooring::testing::TempDir directory_;
  const std::string path_ = directory_.path() + "/secrets";
  Secrets secrets_;
};

TEST_F(SecretsFileTest, ReadsLines) {
  ASSERT_TRUE(Read("# comment\n\nuser=admin\r\npassword= two words=yes \nempty=\nlast=no newline").ok());
  EXPECT_EQ(Content(secrets_),
            (Pairs{{"user", "admin"}, {"password", " two words=yes "}, {"empty", ""}, {"last", "no newline"}}));
}

TEST_F(SecretsFileTest, ReadsJson) {
  ASSERT_TRUE(Read(" \n{\"user\": \"admin\", \"a=b\": \"line 1\\nline 2\"}\n").ok());
  EXPECT_EQ(Content(secrets_), (Pairs{{"user", "admin"}, {"a=b", "line 1\nline 2"}}));
}

TEST_F(SecretsFileTest, AddsToTheCommandLine) {
  ASSERT_TRUE(secrets_.Add("user=admin").ok());
  ASSERT_TRUE(Read("password=hunter22").ok());
  EXPECT_EQ(Content(secrets_), (Pairs{{"user", "admin"}, {"password", "hunter22"}}));
  EXPECT_FALSE(Read("user=other").ok());
}

TEST_F(SecretsFileTest, MayBeEmpty) {
  EXPECT_TRUE(Read("").ok());
  EXPECT_TRUE(Read("\n\n").ok());
  EXPECT_TRUE(Content(secrets_).empty());
}

TEST_F(SecretsFileTest, ErrorsNameTheLineWithoutItsContent) {
  for (const std::string& content : std::vector<std::string>{
           "user=a\nhunter22", "user=a\n=hunter22", "user=a\nuser=hunter22", "{\"password\": \"hunter22\"",
           "{\"password\": [\"hunter22\"]}", "user=a\npassword=hunter22\xff", "{\"password\": \"hunter22\xff\"}",
           "{\"password\": hunter22}", "{\"hunter22\"}", std::string(2 << 20, 'x')}) {
    secrets_ = Secrets();
    const absl::Status status = Read(content);
    ASSERT_TRUE(absl::IsInvalidArgument(status)) << content.substr(0, 80);
    EXPECT_NE(Message(status).find(path_), std::string::npos) << status;
    EXPECT_EQ(Message(status).find("hunter22"), std::string::npos) << status;
  }
  EXPECT_NE(Message(Read("user=b\nhunter22")).find("line 2: there is no '='"), std::string::npos);
}

TEST_F(SecretsFileTest, UnreadableFileIsAUsageError) {
  const absl::Status missing = secrets_.AddFile("/nowhere/secrets");
  EXPECT_TRUE(absl::IsInvalidArgument(missing));
  EXPECT_NE(Message(missing).find("/nowhere/secrets': open: No such file"), std::string::npos) << missing;
  EXPECT_TRUE(absl::IsInvalidArgument(secrets_.AddFile("/")));
}

TEST(SecretsTest, AreRedacted) {
  Secrets secrets;
  ASSERT_TRUE(secrets.Add("a=hunter").ok());
  ASSERT_TRUE(secrets.Add("b=hunter22").ok());
  ASSERT_TRUE(secrets.Add("c=1").ok());
  EXPECT_EQ(secrets.Redact("1: hunter22 and hunter, hunterhunter"), "1: *** and ***, ******");
}

TEST(SecretsTest, AreRedactedInQuotes) {
  const std::string value = "pa'ss\"wo\\rd\n1";
  Secrets secrets;
  ASSERT_TRUE(secrets.Add("a=" + value).ok());
  for (const std::string& quoted : {Quote(value), JsonQuote(value), std::string(R"("pa'ss\"wo\\rd\n1")")}) {
    const std::string text = secrets.Redact("login with " + quoted + " failed");
    EXPECT_EQ(text.substr(12, 3), "***") << text;
    EXPECT_EQ(text.size(), std::string("login with '***' failed").size()) << text;
  }
}

TEST(SecretsTest, LongestSecretIsRedactedFirst) {
  Secrets secrets;
  ASSERT_TRUE(secrets.Add("a='" + std::string(1000, 'x')).ok());
  EXPECT_EQ(secrets.Redact("(\\'" + std::string(1000, 'x') + ")"), "(***)");
}

TEST(KeyValueTest, SplitsAtTheFirstEqualsSign) {
  KeyValues pairs;
  ASSERT_TRUE(AddKeyValue("opts=a=b,c=d", pairs).ok());
  ASSERT_TRUE(AddKeyValue("empty=", pairs).ok());
  EXPECT_EQ(pairs, (KeyValues{{"opts", "a=b,c=d"}, {"empty", ""}}));
}

TEST(KeyValueTest, ErrorsDoNotShowTheValue) {
  KeyValues pairs{{"key", "value"}};
  for (const char* text : {"", "hunter22", "=hunter22", "key=hunter22"}) {
    const absl::Status status = AddKeyValue(text, pairs);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_EQ(Message(status).find("hunter22"), std::string::npos) << status;
  }
  EXPECT_EQ(pairs, (KeyValues{{"key", "value"}}));
}

TEST(KeyValueTest, ListsAreSplitAtCommas) {
  KeyValues pairs;
  ASSERT_TRUE(AddKeyValueList("zone=a,rack=1", pairs).ok());
  EXPECT_EQ(pairs, (KeyValues{{"zone", "a"}, {"rack", "1"}}));
  EXPECT_EQ(ToString(pairs), "rack=1, zone=a");
  EXPECT_FALSE(AddKeyValueList("a=1,", pairs).ok());
  EXPECT_FALSE(AddKeyValueList("", pairs).ok());
}

}  // namespace
}  // namespace mooring::cli
