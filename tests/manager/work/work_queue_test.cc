// Work is repeated until it is done, each kind and plugin on its own.
#include "manager/work/work_queue.h"

#include <atomic>
#include <future>
#include <stdexcept>

#include "tests/manager/prelude.h"
#include "tests/support/no_new_threads.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::WaitUntil;

class WorkQueueTest : public ::testing::Test {
 protected:
  static WorkKind::Settings Settings(Clock::duration first_retry = milliseconds(1), int width = 1) {
    return {.kind = "claim", .width = width, .first_retry = first_retry, .longest_retry = milliseconds(8)};
  }
  static WorkKind::Settings Slow(int width = 1) {
    return {.kind = "claim", .width = width, .first_retry = hours(1), .longest_retry = hours(1)};
  }
  static void ExpectSoon(const std::function<bool()>& holds) { EXPECT_TRUE(WaitUntil(holds, seconds(30))); }
  void ExpectDone() {
    ExpectSoon([this] { return queue_.List().empty(); });
  }

  WorkQueue queue_;
};

TEST_F(WorkQueueTest, RepeatsUntilItSucceeds) {
  WorkKind work(queue_, Settings());
  std::atomic<int> tries = 0;
  work.Push({.key = "a", .attempt = [&] { return ++tries < 6 ? Unavailable("away") : absl::OkStatus(); }});
  ExpectDone();
  EXPECT_EQ(tries, 6);
  EXPECT_FALSE(work.Has("a"));
  EXPECT_THAT(queue_.Count(), ElementsAre(Pair(Pair("claim", ""), 0)));
}

TEST_F(WorkQueueTest, AnExceptionIsAnError) {
  WorkKind work(queue_, Settings());
  std::atomic<int> tries = 0;
  work.Push({.key = "a", .attempt = [&] {
               if (++tries == 1) throw std::runtime_error("the disk is full");
               return absl::OkStatus();
             }});
  ExpectDone();
  EXPECT_EQ(tries, 2);
}

TEST_F(WorkQueueTest, ListSaysWhyItIsNotDone) {
  WorkKind work(queue_, Slow());
  work.Push({.key = "web on db", .lane = "p", .attempt = [] { return Unavailable("p is away"); }});
  ExpectSoon([this] { return queue_.List().at(0).tries == 1; });
  const OwedWork owed = queue_.List().at(0);
  EXPECT_EQ(owed.kind, "claim");
  EXPECT_EQ(owed.key, "web on db");
  EXPECT_EQ(owed.plugin, "p");
  EXPECT_EQ(owed.problem, "p is away");
  EXPECT_LE(owed.since, std::chrono::system_clock::now());
  ASSERT_TRUE(owed.next_try.has_value());
  EXPECT_GT(*owed.next_try, std::chrono::minutes(50));
}

TEST_F(WorkQueueTest, TryNowIsForOneLane) {
  WorkKind work(queue_, Slow());
  std::map<std::string, std::atomic<int>> tries;
  for (const std::string plugin : {"p", "q"}) {
    work.Push({.key = plugin, .lane = plugin, .attempt = [&of = tries[plugin]] {
                 ++of;
                 return Unavailable("away");
               }});
  }
  ExpectSoon([&] {
    const std::vector<OwedWork> owed = queue_.List();
    return std::all_of(owed.begin(), owed.end(), [](const OwedWork& each) { return each.tries == 1; });
  });
  queue_.TryNow("p");
  ExpectSoon([&] { return tries["p"] == 2; });
  EXPECT_TRUE(work.WaitUntilTried(Soon()));
  EXPECT_EQ(tries["q"], 1);
}

TEST_F(WorkQueueTest, TryNowDuringAnAttemptRepeatsOnlyAFailure) {
  WorkKind work(queue_, Slow(2));
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::atomic<int> begun = 0, successes = 0, failures = 0;
  const auto attempt = [&](std::atomic<int>& tries, bool succeeds) {
    return [&, succeeds] {
      ++begun;
      gone.wait();
      return ++tries > 1 || succeeds ? absl::OkStatus() : Unavailable("away");
    };
  };
  work.Push({.key = "succeeds", .lane = "p", .attempt = attempt(successes, true)});
  work.Push({.key = "fails", .lane = "p", .attempt = attempt(failures, false)});
  ExpectSoon([&] { return begun == 2; });
  queue_.TryNow("p");
  work.TryNow();
  go.set_value();
  ExpectDone();
  EXPECT_EQ(successes, 1);
  EXPECT_EQ(failures, 2);
}

// A destructor may wait for others who use the queue.
TEST_F(WorkQueueTest, DestroysAttemptsWithoutItsMutex) {
  std::atomic<int> destroyed = 0;
  const auto attempt = [&](absl::Status outcome) {
    const std::shared_ptr<int> owned(new int(0), [&](const int* number) {
      delete number;
      EXPECT_TRUE(queue_.List().size() < 10);  // takes the mutex
      ++destroyed;
    });
    return [owned, outcome = std::move(outcome)] { return outcome; };
  };
  WorkKind work(queue_, Slow());
  work.Push({.key = "done", .attempt = attempt(absl::OkStatus())});
  ExpectSoon([&] { return destroyed == 1; });
  work.Push({.key = "dropped", .attempt = attempt(absl::OkStatus())}, hours(1));
  work.Push({.key = "dropped", .attempt = attempt(absl::OkStatus())}, hours(1));
  EXPECT_EQ(destroyed, 2) << "it was replaced";
  std::promise<void> begun, go;
  work.Push({.key = "runs", .attempt = [&, hold = attempt(absl::OkStatus())] {
               begun.set_value();
               go.get_future().wait();
               return Unavailable("away");
             }});
  begun.get_future().wait();
  work.Push({.key = "runs", .attempt = attempt(absl::OkStatus())}, hours(1));
  work.Push({.key = "runs", .attempt = attempt(absl::OkStatus())}, hours(1));
  EXPECT_EQ(destroyed, 3) << "it was replaced before it ran";
  work.BeginStop();
  EXPECT_EQ(destroyed, 4) << "it was dropped";
  go.set_value();
  work.Stop();
  EXPECT_EQ(destroyed, 6);
}

TEST_F(WorkQueueTest, StopDoesNotWaitForThreadsThatCannotBeStarted) {
  std::atomic<int> tries = 0;
  WorkKind work(queue_, Slow());
  const testing::NoNewThreads none;
  work.Push({.key = "a", .attempt = [&] { return ++tries, absl::OkStatus(); }});
  EXPECT_TRUE(work.Has("a"));
  work.Stop();
  queue_.Stop();
  EXPECT_EQ(tries, 0);
}

TEST_F(WorkQueueTest, GoesOnOnceThreadsCanBeStarted) {
  std::atomic<int> tries = 0;
  WorkKind work(queue_, Slow());
  {
    const testing::NoNewThreads none;
    work.Push({.key = "a", .attempt = [&] { return ++tries, absl::OkStatus(); }});
  }
  work.TryNow();
  ExpectDone();
  EXPECT_EQ(tries, 1);
}

TEST_F(WorkQueueTest, OtherWorkStartsTheTimerThatCouldNotBeStarted) {
  std::atomic<int> tries = 0;
  const auto attempt = [&] { return ++tries, absl::OkStatus(); };
  WorkKind work(queue_, Slow());
  {
    const testing::NoNewThreads none;
    work.Push({.key = "a", .attempt = attempt});
  }
  work.Push({.key = "b", .attempt = attempt});
  ExpectDone();
  EXPECT_EQ(tries, 2);
}

TEST_F(WorkQueueTest, OneEntryForAKeyAndTheNewestAttemptCounts) {
  WorkKind work(queue_, Slow());
  std::atomic<int> first = 0, second = 0;
  work.Push({.key = "a", .attempt = [&] { return ++first, absl::OkStatus(); }}, hours(1));
  EXPECT_TRUE(work.WaitUntilTried(Soon()));
  work.Push({.key = "a", .attempt = [&] { return ++second, absl::OkStatus(); }});
  ExpectDone();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

TEST_F(WorkQueueTest, PushDuringAnAttemptIsFollowedByAnother) {
  WorkKind work(queue_, Slow());
  std::promise<void> begun, go;
  std::atomic<int> again = 0;
  work.Push({.key = "a", .attempt = [&] {
               begun.set_value();
               go.get_future().wait();
               return absl::OkStatus();
             }});
  begun.get_future().wait();
  work.Push({.key = "a", .attempt = [&] { return ++again, absl::OkStatus(); }});
  EXPECT_EQ(again, 0) << "a record has one attempt at a time";
  go.set_value();
  ExpectDone();
  EXPECT_EQ(again, 1);
}

TEST_F(WorkQueueTest, AnAttemptPlansItsNext) {
  WorkKind work(queue_, Slow());
  std::atomic<int> tries = 0;
  std::function<absl::Status()> attempt = [&] {
    if (++tries < 3) work.Push({.key = "round", .attempt = attempt}, milliseconds(1));
    return absl::OkStatus();
  };
  work.Push({.key = "round", .attempt = attempt});
  ExpectDone();
  EXPECT_EQ(tries, 3);
}

TEST_F(WorkQueueTest, APluginThatHangsDelaysNoOther) {
  WorkKind work(queue_, Slow(2));
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::atomic<int> hanging = 0, done = 0;
  for (const char* key : {"a", "b", "c"}) {
    work.Push({.key = key, .lane = "hung", .attempt = [&] {
                 ++hanging;
                 gone.wait();
                 return absl::OkStatus();
               }});
  }
  work.Push({.key = "d", .lane = "well", .attempt = [&] { return ++done, absl::OkStatus(); }});
  ExpectSoon([&] { return done == 1 && hanging == 2; });
  EXPECT_FALSE(work.WaitUntilTried(Clock::now() + milliseconds(20)));
  EXPECT_EQ(hanging, 2) << "the width of the lane";
  go.set_value();
  ExpectDone();
  EXPECT_EQ(hanging, 3);
}

TEST_F(WorkQueueTest, StopOfOneKindLeavesTheOthers) {
  std::atomic<int> tries = 0;
  WorkKind other(queue_, Slow());
  other.Push({.key = "a", .attempt = [&] { return ++tries, Unavailable("away"); }});
  {
    WorkKind work(queue_, Slow());
    std::promise<void> begun;
    std::atomic<bool> ended = false;
    work.Push({.key = "runs", .attempt = [&] {
                 begun.set_value();
                 std::this_thread::sleep_for(milliseconds(20));
                 ended = true;
                 return Unavailable("away");
               }});
    work.Push({.key = "waits", .attempt = [&] { return ++tries, absl::OkStatus(); }}, hours(1));
    begun.get_future().wait();
    work.Stop();
    EXPECT_TRUE(ended);
    work.Push({.key = "late", .attempt = [&] { return ++tries, absl::OkStatus(); }});
    EXPECT_FALSE(work.Has("runs") || work.Has("waits") || work.Has("late"));
  }
  EXPECT_TRUE(other.WaitUntilTried(Soon()));
  EXPECT_EQ(tries, 1);
  EXPECT_TRUE(other.Has("a"));
}

TEST_F(WorkQueueTest, NothingBeginsAfterTheStop) {
  std::atomic<int> tries = 0;
  WorkKind work(queue_, Settings());
  queue_.Stop();
  work.Push({.key = "a", .attempt = [&] { return ++tries, absl::OkStatus(); }});
  EXPECT_FALSE(work.Has("a"));
  EXPECT_EQ(tries, 0);
}

}  // namespace
}  // namespace mooring::manager
