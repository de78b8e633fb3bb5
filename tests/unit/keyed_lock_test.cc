#include "plugin/keyed_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "base/status.h"

namespace mooring {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

KeyedLocks::Clock::time_point In(milliseconds time) { return KeyedLocks::Clock::now() + time; }

TEST(KeyedLocksTest, TheSameKeyWaitsUntilItIsFree) {
  KeyedLocks locks;
  std::optional<KeyedLocks::Hold> first(*locks.Acquire("a", "volume", In(seconds(1))));
  std::atomic<bool> second = false;
  std::thread waiting([&] {
    EXPECT_TRUE(locks.Acquire("a", "volume", In(seconds(30))).ok());
    second = true;
  });
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_FALSE(second);
  first.reset();
  waiting.join();
  EXPECT_TRUE(second);
}

TEST(KeyedLocksTest, AnotherKeyNeverWaits) {
  KeyedLocks locks;
  const auto held = locks.Acquire("a", "volume", In(seconds(1)));
  EXPECT_TRUE(locks.Acquire("b", "volume", KeyedLocks::Clock::now()).ok());
}

TEST(KeyedLocksTest, PastItsDeadlineAWaiterIsAborted) {
  KeyedLocks locks;
  const auto held = locks.Acquire("a", "volume", In(seconds(1)));
  const auto before = KeyedLocks::Clock::now();
  const absl::Status status = locks.Acquire("a", "volume", In(milliseconds(30))).status();
  EXPECT_GE(KeyedLocks::Clock::now() - before, milliseconds(30));
  ASSERT_TRUE(absl::IsAborted(status));
  EXPECT_THAT(Message(status), AllOf(HasSubstr("volume 'a'"), HasSubstr("again")));
}

TEST(KeyedLocksTest, AfterAnAbortedWaitTheKeyIsUsableAgain) {
  KeyedLocks locks;
  {
    const auto held = locks.Acquire("a", "volume", In(seconds(1)));
    EXPECT_FALSE(locks.Acquire("a", "volume", In(milliseconds(1))).ok());
  }
  EXPECT_TRUE(locks.Acquire("a", "volume", KeyedLocks::Clock::now()).ok());
}

TEST(KeyedLocksTest, AMovedHoldIsReleasedOnce) {
  KeyedLocks locks;
  {
    KeyedLocks::Hold first = *locks.Acquire("a", "volume", In(seconds(1)));
    const KeyedLocks::Hold moved = std::move(first);
    EXPECT_FALSE(locks.Acquire("a", "volume", In(milliseconds(1))).ok());
  }
  EXPECT_TRUE(locks.Acquire("a", "volume", KeyedLocks::Clock::now()).ok());
}

TEST(KeyedLocksTest, OnlyOneOfManyHoldsAKey) {
  KeyedLocks locks;
  std::atomic<int> inside = 0, done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const auto hold = locks.Acquire("a", "volume", In(seconds(60)));
        ASSERT_TRUE(hold.ok());
        EXPECT_EQ(++inside, 1);
        --inside;
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 4000);
}

}  // namespace
}  // namespace mooring
