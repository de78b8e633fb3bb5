// SIGTERM while a call waits or hangs: the manager ends soon, and the next start restores or undoes everything.
#include <signal.h>

#include "tests/manager/system/manager_test.h"

namespace mooring::testing {
namespace {

using Clock = std::chrono::steady_clock;

class ManagerStop : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    RunPlugin(kStrictPlugin);
    Create("db", kStrictPlugin);
  }

  void StopSoon() {
    const Clock::time_point before = Clock::now();
    EXPECT_EQ(process().End(SIGTERM), 0) << process().Log();
    EXPECT_LT(Clock::now() - before, seconds(5)) << process().Log();
  }

  // Attaches in the background, with a client of its own.
  std::future<absl::Status> BeginAttach(const std::string& id) {
    return std::async(std::launch::async, [this, id] {
      ManagerClient other(process().options().socket);
      return other.Attach(id, "web-2", dir() / (id + "-2")).status();
    });
  }
};

TEST_F(ManagerStop, StopInterruptsHangingCallAndNextStartUndoesIt) {
  Inject("NodeStageVolume", "hang");
  auto attach = BeginAttach("db");
  EXPECT_TRUE(Eventually([&] {
    const auto attachments = client().Attachments();
    return attachments.size() == 1 && !attachments[0].source().empty();
  })) << "it is being mounted";
  StopSoon();
  EXPECT_THAT(attach.get(), FailsWith(Code::kUnavailable, "the manager is stopping"));
  EndFault("NodeStageVolume");
  Start();
  EXPECT_TRUE(Eventually([&] { return client().Attachments().empty() && client().Claims().empty(); }, seconds(30)));
  EXPECT_THAT(MountsHere(), IsEmpty());
  Attached("db");
}

TEST_F(ManagerStop, StopEndsWaitsAndNextStartRestores) {
  Create("other", kStrictPlugin);
  const std::string path = Attached("db");
  ASSERT_EQ(TryWrite(path + "/f", "data"), 0);
  Inject("NodeGetInfo", "hang");
  Restart(SIGKILL);
  auto attach = BeginAttach("other");  // the restoration waits, too
  EXPECT_EQ(attach.wait_for(milliseconds(300)), std::future_status::timeout);
  StopSoon();
  EXPECT_THAT(attach.get(), FailsWith(Code::kUnavailable, "the manager is stopping"));
  EXPECT_EQ(ReadFile(path + "/f"), "data");
  EndFault("NodeGetInfo");
  Start();
  EXPECT_TRUE(Eventually([&] { return client().Attachments().size() == 1; }, seconds(30)));
  EXPECT_TRUE(client().Attachments()[0].problem().empty());
  EXPECT_EQ(ReadFile(path + "/f"), "data");
  EXPECT_TRUE(Eventually([&] { return client().Detach("web-1", "db").ok(); }, seconds(30)));
}

}  // namespace
}  // namespace mooring::testing
