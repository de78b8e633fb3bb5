// The few programs that are run: how they end, and that none is left behind.
#include "mounter/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

absl::StatusOr<CommandResult> Shell(const std::string& script, seconds limit = seconds(20)) {
  return RunCommand({"sh", "-c", script}, "dash", limit);
}

TEST(CommandTest, ExitCodeAndBothOutputsOnOneLine) {
  const auto result = Shell("echo out; echo err >&2; exit 7");
  ASSERT_OK(result);
  EXPECT_EQ(result->exit_code, 7);
  EXPECT_EQ(result->output, "out err");
}

TEST(CommandTest, SuccessWithoutOutput) {
  const auto result = RunCommand({"true"}, "coreutils", seconds(20));
  ASSERT_OK(result);
  EXPECT_EQ(result->exit_code, 0);
  EXPECT_EQ(result->output, "");
}

TEST(CommandTest, ArgumentsAreNoShellText) {
  const auto result = RunCommand({"printf", "%s|", "a b", "$HOME", "; false", "'\""}, "coreutils", seconds(20));
  ASSERT_OK(result);
  EXPECT_EQ(result->output, "a b|$HOME|; false|'\"|");
}

TEST(CommandTest, OnlyTheTailOfALongOutputIsKept) {
  const auto result = Shell("head -c 1000000 /dev/zero | tr '\\0' x; echo the end");
  ASSERT_OK(result);
  EXPECT_LE(result->output.size(), 2048U);
  EXPECT_THAT(result->output, ::testing::EndsWith("xxthe end"));
}

TEST(CommandTest, SignalIsTheExitCodeAbove128) {
  const auto result = Shell("kill -TERM $$");
  ASSERT_OK(result);
  EXPECT_EQ(result->exit_code, 128 + SIGTERM);
}

TEST(CommandTest, ReadsNothingFromOurInput) {
  const auto result = Shell("cat; echo done");
  ASSERT_OK(result);
  EXPECT_EQ(result->output, "done");
}

TEST(CommandTest, SpeaksPlainEnglishInAKnownEnvironment) {
  ::setenv("MOORING_SECRET", "value", 1);
  const auto result = Shell("echo $LC_ALL; echo secret=$MOORING_SECRET");
  ::unsetenv("MOORING_SECRET");
  ASSERT_OK(result);
  EXPECT_EQ(result->output, "C secret=");
}

TEST(CommandTest, MissingProgramNamesItselfAndItsPackage) {
  const auto result = RunCommand({"no-such-program"}, "its-package", seconds(20));
  EXPECT_THAT(result, FailsWith(absl::StatusCode::kFailedPrecondition, "no-such-program"));
  EXPECT_THAT(result, FailsWith(absl::StatusCode::kFailedPrecondition, "its-package"));
}

TEST(CommandTest, IsFoundWithoutAPath) {
  const std::string path = ::getenv("PATH");
  ::unsetenv("PATH");
  EXPECT_OK(RunCommand({"true"}, "coreutils", seconds(20)));
  ::setenv("PATH", path.c_str(), 1);
}

class DeadlineTest : public KernelTest {
 protected:
  // The process whose id the script wrote into the file "pid".
  bool Gone() const {
    return Eventually([this] { return ::kill(std::stoi(ReadFile(Path("pid"))), 0) != 0; });
  }
  static void ExpectKilled(const std::string& script) {
    const auto start = Clock::now();
    EXPECT_THAT(Shell(script, seconds(1)), FailsWith(absl::StatusCode::kDeadlineExceeded, "killed after 1 s"));
    EXPECT_LT(Clock::now() - start, seconds(5));
  }
};

TEST_F(DeadlineTest, KillsAProgramThatTakesTooLong) {
  ExpectKilled("echo $$ > '" + Path("pid") + "'; exec sleep 30");
  EXPECT_TRUE(Gone());
}

TEST_F(DeadlineTest, KillsAProgramThatNeverStopsTalking) {
  ExpectKilled("echo $$ > '" + Path("pid") + "'; exec yes");
  EXPECT_TRUE(Gone());
}

TEST_F(DeadlineTest, KillsItsChildrenToo) {
  ExpectKilled("sleep 30 & echo $! > '" + Path("pid") + "'; wait");
  EXPECT_TRUE(Gone());
}

TEST_F(DeadlineTest, KillsAProgramThatClosedItsOutput) {
  ExpectKilled("echo $$ > '" + Path("pid") + "'; exec sleep 30 >&- 2>&-");
  EXPECT_TRUE(Gone());
}

TEST_F(DeadlineTest, ProgramThatEndedIsNotWaitedForBecauseOfItsChildrenWhichEndToo) {
  const auto start = Clock::now();
  const auto result = Shell("echo said; sleep 30 & echo $! > '" + Path("pid") + "'");
  ASSERT_OK(result);
  EXPECT_EQ(result->output, "said");
  EXPECT_LT(Clock::now() - start, seconds(5));
  EXPECT_TRUE(Gone());
}

}  // namespace
}  // namespace mooring::testing
