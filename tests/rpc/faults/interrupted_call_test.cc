// A plugin that ends while a call is under way.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <future>
#include <thread>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class InterruptedCall : public RpcTest {
 protected:
  void SetUp() override {
    plugin().options().environment["PATH"] = SlowMkfs(0.6);
    RpcTest::SetUp();
    id_ = Created();
    staging_ = Staging(id_);
  }

  std::future<absl::Status> StageInBackground() {
    auto stage = std::async(std::launch::async, [this] { return driver().Stage(id_, staging_).status; });
    EXPECT_TRUE(Eventually([&] { return MkfsRuns() == 1; }));
    return stage;
  }

  std::vector<std::string> Formatting() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(state_dir() + "/volumes")) {
      if (entry.path().native().find(".formatting") != std::string::npos) names.push_back(entry.path());
    }
    return names;
  }

  std::string id_, staging_;
};

TEST_F(InterruptedCall, SigtermLetsTheCallUnderWayEnd) {
  auto stage = StageInBackground();
  EXPECT_EQ(plugin().Terminate(), 0);
  EXPECT_OK(stage.get());
  EXPECT_TRUE(MountAt(staging_));
  EXPECT_FALSE(fs::exists(dir() / "csi.sock")) << "its own socket goes with it";
  Start();
  EXPECT_OK(driver().Stage(id_, staging_));
  EXPECT_EQ(MkfsRuns(), 1);
}

TEST_F(InterruptedCall, SigtermRefusesNewCalls) {
  auto stage = StageInBackground();
  auto end = std::async(std::launch::async, [&] { return plugin().Terminate(); });
  EXPECT_TRUE(Eventually([&] { return absl::IsUnavailable(driver().Send(csi::v1::ProbeRequest()).status); }));
  EXPECT_OK(stage.get());
  EXPECT_EQ(end.get(), 0);
  Start();
}

// Of a process that ends in the middle of a call: it says which, and what runs on without it.
TEST_F(InterruptedCall, SigtermWaitsNoLongerThanItsTimeout) {
  plugin().options().environment["PATH"] = SlowMkfs(4);
  plugin().options().flags.insert(plugin().options().flags.end(), {"--stop-timeout", "1"});
  Restart(SIGTERM);
  auto stage = StageInBackground();
  const auto start = Clock::now();
  EXPECT_EQ(plugin().Terminate(), 1);
  EXPECT_GE(Clock::now() - start, milliseconds(900));
  EXPECT_LT(Clock::now() - start, milliseconds(2500));
  EXPECT_TRUE(absl::IsUnavailable(stage.get()));
  EXPECT_THAT(plugin().Log(), ::testing::ContainsRegex("NodeStageVolume ..*" + id_ + ".*tools that run on: mkfs.ext4"));
  const pid_t orphan = ToolRuns("mkfs.ext4").back();
  EXPECT_TRUE(Runs(orphan));
  plugin().options().environment.clear();
  Start();
  EXPECT_OK(driver().Stage(id_, staging_));
  EXPECT_FALSE(Runs(orphan)) << "it was waited for";
}

// The next process finds an image that is empty or formatted, never half of it.
TEST_F(InterruptedCall, SigkillInTheMiddleOfMkfs) {
  auto stage = StageInBackground();
  plugin().Kill();
  EXPECT_FALSE(stage.get().ok());
  EXPECT_THAT(Formatting(), ::testing::SizeIs(1));
  Start();
  EXPECT_OK(driver().Unstage(id_, staging_));
  EXPECT_OK(driver().Stage(id_, staging_));
  EXPECT_THAT(Formatting(), ::testing::IsEmpty()) << "what a killed mkfs left";
  EXPECT_EQ(TryWrite(staging_ + "/file", "data"), 0);
}

TEST_F(InterruptedCall, SigkillInTheMiddleOfMkfsAndDeleteAfterwards) {
  auto stage = StageInBackground();
  plugin().Kill();
  EXPECT_FALSE(stage.get().ok());
  Start();
  EXPECT_THAT(driver().Delete(id_), FailsWith(Code::kAborted, "another process")) << "the mkfs still runs";
  EXPECT_TRUE(Eventually([&] { return driver().Delete(id_).status.ok(); }));
  EXPECT_THAT(Formatting(), ::testing::IsEmpty());
}

TEST_F(InterruptedCall, WhatAKilledMkfsLeftGoesAtTheStartOnceTheMkfsHasEnded) {
  auto stage = StageInBackground();
  plugin().Kill();
  EXPECT_FALSE(stage.get().ok());
  EXPECT_TRUE(Eventually([&] { return !Runs(ToolRuns("mkfs.ext4").front()); }));
  EXPECT_THAT(Formatting(), ::testing::SizeIs(1));
  Start();
  EXPECT_THAT(Formatting(), ::testing::IsEmpty());
}

// At any moment of a life: nothing that the next process could not put right.
TEST_F(InterruptedCall, SigkillAtRandomMoments) {
  plugin().options().environment.clear();
  Restart(SIGTERM);
  const VolumeCapability use = Block();
  for (int round = 0; round < 12; ++round) {
    const std::string name = "random-" + std::to_string(round);
    std::string made;
    auto life = std::async(std::launch::async, [&] {
      const VolumeCapability capability = round % 2 == 0 ? Mount() : use;
      const auto created = driver().Create(name, capability);
      made = created->volume().volume_id();
      driver().Stage(made, Staging(name), capability);
      driver().Publish(made, Staging(name), Target(name), capability);
      driver().Unpublish(made, Target(name));
      driver().Unstage(made, Staging(name));
    });
    std::this_thread::sleep_for(milliseconds(1 + 5 * round));
    plugin().Kill();
    life.get();
    Start();
    EXPECT_LE(MountsAt(Target(name)).size(), 1U);
    const auto again = driver().Create(name, round % 2 == 0 ? Mount() : use);
    ASSERT_OK(again);
    const std::string id = again->volume().volume_id();
    EXPECT_OK(driver().Unpublish(id, Target(name)));
    EXPECT_OK(driver().Unstage(id, Staging(name)));
    EXPECT_OK(driver().Delete(id));
    EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); })) << "killed after " << 1 + 5 * round << " ms";
  }
}

// A client that is stopped, or has forgotten its connection, does not answer the server's goodbye.
TEST_F(InterruptedCall, AnIdleClientThatDoesNotListenDoesNotHoldUpTheEnd) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (dir() / "csi.sock").copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd idle(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(idle.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_OK(driver().Send(csi::v1::ProbeRequest()));  // a connection that nobody looks after from now on
  const auto start = Clock::now();
  EXPECT_EQ(plugin().Terminate(), 0);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
  Start();
}

}  // namespace
}  // namespace mooring::testing
