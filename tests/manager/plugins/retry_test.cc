#include <stop_token>

#include "manager/csi/csi_channel.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

const absl::Status kAway = Unavailable("Probe: the array is away");
const absl::Status kNoAnswer = absl::DeadlineExceededError("no answer in time to NodeStageVolume");

class RetryTest : public ::testing::Test {
 protected:
  // Each try gets the next answer; the last answer comes when the time is up.
  absl::Status Run(const std::vector<absl::Status>& answers) {
    const Clock::time_point until = Clock::now() + milliseconds(100);
    const RetryPolicy policy{.each = hours(1), .first_pause = milliseconds(0), .longest_pause = milliseconds(0)};
    return Retry(policy, until, [&](Clock::time_point try_until) {
      EXPECT_EQ(try_until, until);
      const bool last = ++tries_ == answers.size();
      while (last && Clock::now() < until) {
      }
      return answers.at(tries_ - 1);
    });
  }

  std::size_t tries_ = 0;
};

TEST_F(RetryTest, RepeatsWhileAnotherTryMaySucceed) {
  EXPECT_OK(Run({kAway, kNoAnswer, Aborted("busy"), absl::OkStatus()}));
  EXPECT_EQ(tries_, 4U);
}

TEST_F(RetryTest, GivesOtherErrorsAtOnce) {
  EXPECT_EQ(Run({kAway, Internal("no")}), Internal("no"));
  EXPECT_EQ(tries_, 2U);
}

TEST_F(RetryTest, ErrorHasTheNumberOfTries) {
  EXPECT_EQ(Run({kAway}), kAway);
  tries_ = 0;
  EXPECT_THAT(Run({Aborted("busy"), kAway}), FailsWith(Code::kUnavailable, "Probe: the array is away (tried 2 times)"));
}

TEST_F(RetryTest, GivesTheLastAnswerWhenALaterTryTimesOut) {
  EXPECT_THAT(
      Run({kAway, kNoAnswer}),
      FailsWith(Code::kUnavailable, "Probe: the array is away (tried 2 times; the last try got no answer in time)"));
}

TEST_F(RetryTest, GivesDeadlineExceededWithoutAnyAnswer) {
  EXPECT_EQ(Run({kNoAnswer}), kNoAnswer);
  tries_ = 0;
  EXPECT_THAT(Run({kNoAnswer, kNoAnswer}),
              FailsWith(Code::kDeadlineExceeded, "no answer in time to NodeStageVolume (tried 2 times)"));
}

TEST_F(RetryTest, StopEndsThePause) {
  std::stop_source stop;
  const RetryPolicy policy{.first_pause = hours(1), .stop = stop.get_token()};
  auto waiting = std::async(std::launch::async, [&] {
    return Retry(policy, Clock::now() + hours(9), [&](Clock::time_point) {
      ++tries_;
      return kAway;
    });
  });
  EXPECT_EQ(waiting.wait_for(milliseconds(20)), std::future_status::timeout);
  stop.request_stop();
  EXPECT_EQ(waiting.get(), Stopping());
  EXPECT_EQ(tries_, 1U);
}

TEST_F(RetryTest, TriesNothingAfterAStop) {
  std::stop_source stop;
  stop.request_stop();
  const RetryPolicy policy{.stop = stop.get_token()};
  EXPECT_EQ(Retry(policy, Clock::now() + hours(1), [&](Clock::time_point) { return kAway; }), Stopping());
}

TEST_F(RetryTest, CallEndedByTheStopIsNotAFailure) {
  std::stop_source stop;
  const RetryPolicy policy{.stop = stop.get_token()};
  const auto closed = [&](Clock::time_point) {
    stop.request_stop();
    return Unavailable("the connection was closed");
  };
  EXPECT_EQ(Retry(policy, Clock::now(), closed), Stopping());
  std::stop_source later;
  const auto answer = [&](Clock::time_point) {
    later.request_stop();
    return Internal("no");
  };
  EXPECT_EQ(Retry({.stop = later.get_token()}, Clock::now(), answer), Internal("no"))
      << "an answer of the plugin, not caused by the stop";
}

}  // namespace
}  // namespace mooring::manager
