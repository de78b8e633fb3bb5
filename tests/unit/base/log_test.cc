#include "base/log.h"

#include <algorithm>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

using ::testing::MatchesRegex;

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { EXPECT_OK(log::Setup("info", "text")); }

  template <typename Work>
  static std::string Captured(Work work) {
    ::testing::internal::CaptureStderr();
    work();
    return ::testing::internal::GetCapturedStderr();
  }
  static std::string Written(std::string_view format, const log::Fields& fields) {
    EXPECT_OK(log::Setup("info", format));
    return Captured([&] { log::Info("call", fields); });
  }
};

TEST_F(LogTest, TextIsOneLineOfKeysAndValues) {
  EXPECT_THAT(Written("text", {{"method", "NodeStageVolume"}, {"path", "/a/b"}, {"cause", "it is busy"}}),
              MatchesRegex("20[0-9-]+T[0-9:.]+[+-][0-9:]+ info    call method=NodeStageVolume path=/a/b "
                           "cause='it is busy'\n"));
}

TEST_F(LogTest, ValuesStayInTheirFields) {
  for (const char* value : {"a\nlevel=error", "a' code=OK", "a code=OK", "a=b", "", "a\x1b[2J", "\xc2\x9b", "a\\"}) {
    const std::string line = Written("text", {{"volume", value}, {"code", "5"}});
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
    EXPECT_THAT(line, HasSubstr(" volume='")) << line;
    EXPECT_THAT(line, EndsWith("' code=5\n"));
    EXPECT_EQ(std::count(line.begin(), line.end(), '\x1b'), 0);
  }
}

TEST_F(LogTest, MessageIsOneLine) {
  for (const char* format : {"text", "json"}) {
    EXPECT_OK(log::Setup("info", format));
    const std::string line = Captured([] { log::Info("one\ntwo"); });
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  }
}

TEST_F(LogTest, JsonIsOneObjectPerLine) {
  const std::string line = Written("json", {{"volume", "a\"b\\c\nd\xff"}});
  EXPECT_THAT(line, AllOf(StartsWith("{\"time\":\"20"), HasSubstr("\"level\":\"info\",\"message\":\"call\""),
                          EndsWith(",\"volume\":\"a\\\"b\\\\c\\u000ad\\ufffd\"}\n")));
}

TEST_F(LogTest, NumberIsUnquotedInJson) {
  EXPECT_THAT(Written("json", {{"ms", 0.25}}), EndsWith(",\"ms\":0.250}\n"));
  EXPECT_THAT(Written("text", {{"ms", 1234.5}}), EndsWith(" ms=1234.500\n"));
}

TEST_F(LogTest, FormatStringsAreNotExpanded) {
  for (const char* format : {"text", "json"}) {
    EXPECT_THAT(Written(format, {{"volume", "{} %v {0} %n {:s}"}}), HasSubstr("{} %v {0} %n {:s}"));
  }
}

TEST_F(LogTest, HugeValueIsCut) {
  const std::string line = Written("text", {{"a", std::string(100000, 'x')}, {"b", std::string(100000, ' ')}});
  EXPECT_LT(line.size(), 9000U);
  EXPECT_THAT(line, HasSubstr("(100000 bytes)"));
}

TEST_F(LogTest, LowerLevelsAreNotWritten) {
  const auto all = [] {
    log::Debug("at-debug");
    log::Info("at-info");
    log::Warning("at-warning");
    log::Error("at-error");
  };
  EXPECT_OK(log::Setup("warning", "text"));
  EXPECT_THAT(Captured(all), AllOf(Not(HasSubstr("at-debug")), Not(HasSubstr("at-info")), HasSubstr("at-warning"),
                                   HasSubstr("at-error")));
  EXPECT_FALSE(log::Enabled(log::Level::kInfo));
  EXPECT_TRUE(log::Enabled(log::Level::kError));
  EXPECT_OK(log::Setup("debug", "json"));
  EXPECT_THAT(Captured(all), AllOf(HasSubstr("at-debug"), HasSubstr("\"level\":\"warning\"")));
}

TEST_F(LogTest, UnknownLevelListsTheChoices) {
  EXPECT_THAT(log::Setup("loud", "text"), FailsWith(StatusCode::kInvalidArgument, "debug, info, warning or error"));
  EXPECT_THAT(log::Setup("info", "xml"), FailsWith(StatusCode::kInvalidArgument, "text or json"));
  EXPECT_THAT(log::Setup("", ""), FailsWith(StatusCode::kInvalidArgument, "log level ''"));
}

TEST_F(LogTest, ThreadsDoNotMixTheirLines) {
  EXPECT_OK(log::Setup("info", "text"));
  const std::string text = Captured([] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        for (int n = 0; n < 50; ++n) log::Info("call", {{"path", std::string(200, 'p')}, {"end", "x"}});
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  std::string wanted(200, 'p');
  wanted.append(" end=x");
  std::size_t lines = 0;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1, ++lines) {
    EXPECT_THAT(text.substr(at, end - at), EndsWith(wanted));
  }
  EXPECT_EQ(lines, 200U);
}

TEST_F(LogTest, OnceWritesEachMessageOnce) {
  EXPECT_OK(log::Setup("info", "text"));
  const auto write = [] {
    for (const char* value : {"1", "2"}) {
      log::Once(log::Level::kWarning, "a first message", {{"value", value}});
      log::Once(log::Level::kWarning, "a second message", {{"value", value}});
    }
  };
  const std::string text = Captured(write);
  EXPECT_THAT(text, AllOf(HasSubstr("a first message value=1\n"), HasSubstr("a second message value=1\n")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(Captured(write), "");
}

TEST_F(LogTest, OnceCountsAllThreads) {
  EXPECT_OK(log::Setup("info", "text"));
  const std::string text = Captured([] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([] { log::Once(log::Level::kError, "a message of many threads"); });
    }
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

}  // namespace
}  // namespace mooring::testing
