#include "base/deadline.h"

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

using Clock = DeadlineScope::Clock;

TEST(DeadlineScopeTest, LastsUntilItsEnd) {
  EXPECT_EQ(DeadlineScope::Now(), std::nullopt);
  const Clock::time_point soon = Clock::now() + std::chrono::seconds(1);
  {
    const DeadlineScope scope(soon);
    EXPECT_EQ(DeadlineScope::Now(), soon);
  }
  EXPECT_EQ(DeadlineScope::Now(), std::nullopt);
}

TEST(DeadlineScopeTest, EarlierEnclosingDeadlineStays) {
  const Clock::time_point soon = Clock::now() + std::chrono::seconds(1);
  const DeadlineScope outer(soon);
  {
    const DeadlineScope later(soon + std::chrono::seconds(1));
    EXPECT_EQ(DeadlineScope::Now(), soon);
    const DeadlineScope earlier(soon - std::chrono::milliseconds(1));
    EXPECT_EQ(DeadlineScope::Now(), soon - std::chrono::milliseconds(1));
  }
  EXPECT_EQ(DeadlineScope::Now(), soon);
}

TEST(DeadlineScopeTest, FreshDeadlineReplacesTheEnclosingOne) {
  const Clock::time_point over = Clock::now() - std::chrono::seconds(1);
  const DeadlineScope outer(over);
  {
    const DeadlineScope fresh = DeadlineScope::Fresh(std::chrono::seconds(10));
    EXPECT_GT(DeadlineScope::Now(), Clock::now() + std::chrono::seconds(5));
    EXPECT_LE(DeadlineScope::Now(), Clock::now() + std::chrono::seconds(10));
  }
  EXPECT_EQ(DeadlineScope::Now(), over);
}

TEST(DeadlineScopeTest, BelongsToOneThread) {
  const DeadlineScope scope(Clock::now());
  std::thread([] { EXPECT_EQ(DeadlineScope::Now(), std::nullopt); }).join();
}

}  // namespace
}  // namespace mooring::testing
