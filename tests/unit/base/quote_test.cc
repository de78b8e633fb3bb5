#include "base/text/quote.h"

#include "base/text/clean_text.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

TEST(QuoteTest, PlainTextIsQuoted) {
  EXPECT_EQ(Quote("/a b"), "'/a b'");
  EXPECT_EQ(Quote(""), "''");
  EXPECT_EQ(Quote("größe 卷"), "'größe 卷'");
}

TEST(QuoteTest, QuotesAndControlCharactersAreEscaped) {
  EXPECT_EQ(Quote("it's"), R"('it\'s')");
  EXPECT_EQ(Quote(R"(a\b)"), R"('a\\b')");
  EXPECT_EQ(Quote("a\nb\r\t\x1b[31m\x7f"), R"('a\x0ab\x0d\x09\x1b[31m\x7f')");
  EXPECT_EQ(Quote(std::string_view("a\0b", 3)), R"('a\x00b')");
}

TEST(QuoteTest, InvalidUtf8AndC1ControlsAreEscaped) {
  EXPECT_EQ(Quote("a\xff\x80z"), R"('a\xff\x80z')");
  EXPECT_EQ(Quote("\xc2\x9b"
                  "31m\xc2\xa0"),
            "'\\xc2\\x9b31m\xc2\xa0'");  // CSI of a terminal, and a no-break space
}

TEST(QuoteTest, LongTextIsCut) {
  EXPECT_EQ(Quote(std::string(256, 'x')), "'" + std::string(256, 'x') + "'");
  EXPECT_EQ(Quote(std::string(257, 'x')), "'" + std::string(256, 'x') + "… (257 bytes)'");
  EXPECT_EQ(Quote("abcdef", 3), "'abc… (6 bytes)'");
}

TEST(QuoteTest, TextIsNotCutInsideACharacter) { EXPECT_EQ(Quote("abß…", 3), "'ab… (7 bytes)'"); }

TEST(JsonQuoteTest, PlainTextIsQuoted) {
  EXPECT_EQ(JsonQuote(""), R"("")");
  EXPECT_EQ(JsonQuote("größe 卷 💾"), R"("größe 卷 💾")");
}

TEST(JsonQuoteTest, SpecialCharactersAreEscaped) {
  EXPECT_EQ(JsonQuote("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(JsonQuote("a\nb\x1b"), R"("a\u000ab\u001b")");
  EXPECT_EQ(JsonQuote(std::string_view("\0", 1)), R"("\u0000")");
}

TEST(JsonQuoteTest, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(JsonQuote("a\xffz"), R"("a\ufffdz")");
  EXPECT_EQ(JsonQuote("\xc3"), R"("\ufffd")");                      // cut short
  EXPECT_EQ(JsonQuote("\xc3z"), R"("\ufffdz")");                    // not continued
  EXPECT_EQ(JsonQuote("\xc0\xaf"), R"("\ufffd\ufffd")");            // overlong '/'
  EXPECT_EQ(JsonQuote("\xe0\x80\xaf"), R"("\ufffd\ufffd\ufffd")");  // overlong '/', longer
  EXPECT_EQ(JsonQuote("\xf0\x80\x80\xaf"), R"("\ufffd\ufffd\ufffd\ufffd")");
  EXPECT_EQ(JsonQuote("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")");            // half a surrogate pair
  EXPECT_EQ(JsonQuote("\xf4\x90\x80\x80"), R"("\ufffd\ufffd\ufffd\ufffd")");  // beyond U+10FFFF
  EXPECT_EQ(JsonQuote("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"), "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"");
}

TEST(CleanTextTest, InvalidUtf8IsReplacedAndLongTextIsCut) {
  EXPECT_EQ(CleanText("caf\xE9 au lait"), "caf\uFFFD au lait");
  EXPECT_EQ(CleanText("café"), "café");
  EXPECT_EQ(CleanText("ééé", 5), "éé…");
  EXPECT_TRUE(IsUtf8(CleanText(std::string(10'000, '\xE9'))));
  EXPECT_LE(CleanText(std::string(10'000, '\xE9')).size(), 4096U + 3);
}

}  // namespace
}  // namespace mooring::testing
