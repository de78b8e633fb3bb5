// The supervisor while no thread can be started.
#include "tests/manager/supervisor/supervisor_fixture.h"
#include "tests/support/no_new_threads.h"
#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

using SupervisorThreadsTest = SupervisorFixture;

TEST_F(SupervisorThreadsTest, AFailedLaunchIsReported) {
  ASSERT_OK(RunPlugin("one", "old"));
  {
    const NoNewThreads none;
    EXPECT_THAT(RunPlugin("one", "new"), FailsWith(Code::kUnavailable, "cannot start a thread"));
  }
  EXPECT_OK(RunPlugin("one", "new"));
}

TEST_F(SupervisorThreadsTest, ADeclaredPluginRunsLater) {
  {
    const NoNewThreads none;
    EXPECT_OK(StartPlugin("one", "plugin"));
    EXPECT_OK(StartPlugin("two", "plugin"));
    EXPECT_THAT(supervisor_->Declared(), SizeIs(2));
  }
  EXPECT_OK(RunPlugin("one"));
  EXPECT_TRUE(testing::WaitUntil([&] { return Front("two").has_value(); }, seconds(20)));
  EXPECT_OK(supervisor_->StopPlugin("two", "", Soon()));
}

TEST_F(SupervisorThreadsTest, ShutdownDoesNotWaitForAPlugin) {
  const NoNewThreads none;
  EXPECT_OK(StartPlugin("one", "plugin"));
  EXPECT_THAT(supervisor_->StopPlugin("one", "", Clock::now()), FailsWith(Code::kDeadlineExceeded, "start a thread"));
  supervisor_->Stop();
}

TEST_F(SupervisorThreadsTest, ShutdownSignalsAnEndThatHasNotBegun) {
  ASSERT_OK(RunPlugin("one"));
  exec_.HangEnds();
  std::promise<void> go;
  auto stopped = std::async(std::launch::async, [&] {
    go.get_future().wait();
    return supervisor_->StopPlugin("one", "", Clock::now() + hours(1));
  });
  const NoNewThreads none;
  go.set_value();
  EXPECT_TRUE(testing::WaitUntil([&] { return !work_->List().empty(); }, seconds(20)));
  EXPECT_EQ(exec_.WaitForEnds(0), 0);
  supervisor_->Stop();
  EXPECT_THAT(stopped.get(), FailsWith(Code::kUnavailable, "the manager is stopping"));
  EXPECT_EQ(exec_.WaitForEnds(0), 1) << "it gets its signal, and nobody waits for its end";
  EXPECT_EQ(exec_.Alive(), 1);
}

}  // namespace
}  // namespace mooring::testing
