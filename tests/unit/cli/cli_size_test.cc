#include <gtest/gtest.h>

#include <limits>

#include "base/status.h"
#include "base/text/size.h"

namespace mooring::cli {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(ParseSizeTest, ParsesAllUnits) {
  EXPECT_EQ(*ParseSize("0"), 0);
  EXPECT_EQ(*ParseSize("1073741824"), 1073741824);
  EXPECT_EQ(*ParseSize("7B"), 7);
  EXPECT_EQ(*ParseSize("3KiB"), 3 * 1024);
  EXPECT_EQ(*ParseSize("512MiB"), 512LL << 20);
  EXPECT_EQ(*ParseSize("1GiB"), 1LL << 30);
  EXPECT_EQ(*ParseSize("1Gi"), 1LL << 30);
  EXPECT_EQ(*ParseSize("2TiB"), 2LL << 40);
  EXPECT_EQ(*ParseSize("1PiB"), 1LL << 50);
  EXPECT_EQ(*ParseSize("1k"), 1000);
  EXPECT_EQ(*ParseSize("1kB"), 1000);
  EXPECT_EQ(*ParseSize("5M"), 5'000'000);
  EXPECT_EQ(*ParseSize("1G"), 1'000'000'000);
  EXPECT_EQ(*ParseSize("1TB"), 1'000'000'000'000);
}

TEST(ParseSizeTest, ParsesUpToTheMaximum) {
  EXPECT_EQ(*ParseSize("9223372036854775807"), kMax);
  EXPECT_EQ(*ParseSize("7EiB"), 7LL << 60);
  for (const char* text : {"9223372036854775808", "8EiB", "10E", "99999999999999999999999", "9007199254740992KiB"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_NE(Message(size.status()).find("more than 2^63"), std::string::npos) << size.status();
  }
}

TEST(ParseSizeTest, RefusesOtherText) {
  for (const char* text : {"",     " ",    "GiB", "1 GiB", " 1GiB", "1GiB ", "+1",   "-1",  "-0",  "1.5GiB", "1,5G",
                           "1gib", "1giB", "1g",  "1kiB",  "1X",    "1GiBB", "0x10", "1e9", "1iB", "1Gib",   "one"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << "'" << text << "' gave " << *size;
    EXPECT_TRUE(absl::IsInvalidArgument(size.status()));
    EXPECT_NE(Message(size.status()).find("write 1073741824, 1GiB"), std::string::npos) << size.status();
  }
}

TEST(FormatSizeTest, ShowsRoundedAndExactSize) {
  EXPECT_EQ(FormatSize(0), "0 B");
  EXPECT_EQ(FormatSize(1023), "1023 B");
  EXPECT_EQ(FormatSize(1024), "1.0 KiB (1024)");
  EXPECT_EQ(FormatSize(1LL << 30), "1.0 GiB (1073741824)");
  EXPECT_EQ(FormatSize(1'000'000'000), "953.6 MiB (1000000000)");
  EXPECT_EQ(FormatSize(kMax), "7.9 EiB (9223372036854775807)");
}

TEST(FormatSizeTest, NeverRoundsUp) {
  EXPECT_EQ(FormatSize((1LL << 30) - 1), "1023.9 MiB (1073741823)");
  EXPECT_EQ(FormatSize(2047), "1.9 KiB (2047)");
}

TEST(FormatSizeTest, ShowsNegativeSizes) {
  EXPECT_EQ(FormatSize(-5), "-5 B");
  EXPECT_EQ(FormatSize(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808 B");
}

}  // namespace
}  // namespace mooring::cli
