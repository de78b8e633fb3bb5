// Only a loop device that was asked and gave no answer counts as hung. No device has the numbers here, because a hung
// device is remembered by its number.
#include "mounter/loop/loop_census.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "tests/support/status_matchers.h"

namespace mooring::testing {
namespace {

using std::chrono_literals::operator""ms;

std::optional<LoopInfo> Loop(unsigned number, const std::string& label) {
  LoopInfo loop;
  loop.device_number = makedev(7, number);
  loop.label = label;
  return loop;
}

absl::StatusOr<std::optional<LoopInfo>> Answers(unsigned number) { return Loop(number, "answers"); }
absl::StatusOr<std::optional<LoopInfo>> Hangs(unsigned number) { return Loop(number, "hangs"); }

std::string Labels(const absl::StatusOr<std::vector<LoopInfo>>& loops) {
  if (!loops.ok()) return loops.status().ToString();
  std::string text;
  for (const LoopInfo& loop : *loops) text += loop.label + " ";
  return text;
}

TEST(LoopCensusTest, DevicesThatAnswerAreFoundHoweverLateTheThreadGetsAProcessor) {
  const auto late = [](std::function<void()> work) {
    std::thread([work = std::move(work)] {
      std::this_thread::sleep_for(1200ms);
      work();
    }).detach();
  };
  EXPECT_EQ(Labels(AskLoops({700001, 700002}, Answers, Hangs, late)), "answers answers ");
  EXPECT_EQ(Labels(AskLoops({700001, 700002}, Answers, Hangs)), "answers answers ") << "and from then on";
}

TEST(LoopCensusTest, OneThatHangsIsAskedAgainOnlyAfterItsAnswer) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  const auto asked = std::make_shared<std::atomic<int>>(0);
  const AskLoop ask = [ended, asked](unsigned number) {
    ++*asked;
    if (number == 700011) ended.wait();
    return Answers(number);
  };
  EXPECT_EQ(Labels(AskLoops({700010, 700011, 700012}, ask, Hangs)), "answers answers hangs ");
  EXPECT_EQ(Labels(AskLoops({700011}, ask, Hangs)), "hangs ");
  EXPECT_EQ(*asked, 3);
  end.set_value();
  for (int i = 0; i < 200 && Labels(AskLoops({700011}, ask, Hangs)) != "answers "; ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_EQ(Labels(AskLoops({700011}, ask, Hangs)), "answers ");
}

TEST(LoopCensusTest, HungDeviceThatIsFreeByNowIsLeftOut) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  const AskLoop ask = [ended](unsigned number) {
    ended.wait();
    return Answers(number);
  };
  const AskLoop none = [](unsigned) { return std::optional<LoopInfo>(); };
  EXPECT_EQ(Labels(AskLoops({700020}, ask, none)), "");
  end.set_value();
}

}  // namespace
}  // namespace mooring::testing
