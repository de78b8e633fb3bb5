#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

#include "base/status.h"
#include "base/text/size.h"

namespace mooring::cli {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(ParseSizeTest, ParsesAllUnits) {
  const std::map<std::string, std::int64_t> sizes{{"0", 0},
                                                  {"1073741824", 1073741824},
                                                  {"7B", 7},
                                                  {"1048575B", 1048575},
                                                  {"1048576", 1048576},
                                                  {"3KiB", 3 * 1024},
                                                  {"512MiB", 512LL << 20},
                                                  {"1GiB", 1LL << 30},
                                                  {"1Gi", 1LL << 30},
                                                  {"2TiB", 2LL << 40},
                                                  {"1PiB", 1LL << 50},
                                                  {"7EiB", 7LL << 60},
                                                  {"1k", 1000},
                                                  {"1kB", 1000},
                                                  {"5M", 5'000'000},
                                                  {"1G", 1'000'000'000},
                                                  {"1TB", 1'000'000'000'000},
                                                  {"9223372036854775807", kMax}};
  for (const auto& [text, size] : sizes) EXPECT_EQ(*ParseSize(text), size) << text;
}

TEST(ParseSizeTest, RefusesMoreThanTheMaximum) {
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
    EXPECT_NE(Message(size.status()).find("as 512MiB or 10GiB (units: B, KiB"), std::string::npos) << size.status();
  }
}

// People mean GB, and would get the smallest volume.
TEST(ParseSizeTest, RefusesFewBytesWithoutUnit) {
  for (const char* text : {"1", "5", "10", "0005", "512", "10240", "1048575"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << "'" << text << "' gave " << *size;
    EXPECT_TRUE(absl::IsInvalidArgument(size.status()));
    EXPECT_NE(Message(size.status()).find("has no unit, and is few bytes: write a whole number and a unit"),
              std::string::npos)
        << size.status();
  }
}

TEST(FormatSizeTest, ShowsRoundedDownAndExactSize) {
  const std::map<std::int64_t, std::string> texts{{0, "0 B"},
                                                  {1023, "1023 B"},
                                                  {1024, "1.0 KiB (1024)"},
                                                  {2047, "1.9 KiB (2047)"},
                                                  {(1LL << 30) - 1, "1023.9 MiB (1073741823)"},
                                                  {1LL << 30, "1.0 GiB (1073741824)"},
                                                  {1'000'000'000, "953.6 MiB (1000000000)"},
                                                  {kMax, "7.9 EiB (9223372036854775807)"},
                                                  {-5, "-5 B"},
                                                  {std::numeric_limits<std::int64_t>::min(), "-9223372036854775808 B"}};
  for (const auto& [size, text] : texts) EXPECT_EQ(FormatSize(size), text);
}

}  // namespace
}  // namespace mooring::cli
