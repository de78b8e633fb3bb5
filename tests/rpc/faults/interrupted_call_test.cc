// The plugin ends while a call is under way.
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/rpc/support/held_tool.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class InterruptedCall : public RpcTest {
 protected:
  void SetUp() override {
    plugin().options().environment["PATH"] = mkfs_.path();
    RpcTest::SetUp();
    id_ = Created();
    staging_ = Staging(id_);
  }
  void TearDown() override {
    mkfs_.Release();
    RpcTest::TearDown();
  }

  std::future<absl::Status> StageInBackground() {
    auto stage = std::async(std::launch::async, [this] { return driver().Stage(id_, staging_).status; });
    EXPECT_TRUE(Eventually([&] { return MkfsRuns() == 1; }));
    return stage;
  }

  // Sends SIGTERM, and returns when the plugin has said that it stops.
  std::future<int> TerminateInBackground() {
    auto end = std::async(std::launch::async, [this] { return plugin().Terminate(); });
    EXPECT_TRUE(Eventually([this] { return CountInLog("stopping") == 1; }));
    return end;
  }

  HeldTool mkfs_ = {*this, "mkfs.ext4"};
  std::string id_, staging_;
};

TEST_F(InterruptedCall, SigtermWaitsForTheCallUnderWay) {
  auto stage = StageInBackground();
  auto end = TerminateInBackground();
  mkfs_.Release();
  EXPECT_EQ(end.get(), 0);
  EXPECT_OK(stage.get());
  EXPECT_TRUE(MountAt(staging_));
  EXPECT_FALSE(fs::exists(dir() / "csi.sock")) << "the plugin has not removed its socket";
  Start();
  EXPECT_OK(driver().Stage(id_, staging_));
  EXPECT_EQ(MkfsRuns(), 1);
}

TEST_F(InterruptedCall, SigtermRefusesNewCalls) {
  auto stage = StageInBackground();
  auto end = TerminateInBackground();
  EXPECT_TRUE(Eventually([&] { return absl::IsUnavailable(driver().Send(ProbeRequest()).status); }));
  mkfs_.Release();
  EXPECT_OK(stage.get());
  EXPECT_EQ(end.get(), 0);
  Start();
}

// The log names the call that was cut short, and the tools that still run.
TEST_F(InterruptedCall, SigtermWaitsNoLongerThanItsTimeout) {
  RestartWith({"--stop-timeout", "1"});
  auto stage = StageInBackground();
  const auto start = Clock::now();
  EXPECT_EQ(plugin().Terminate(), 1);
  EXPECT_GE(Clock::now() - start, milliseconds(900));
  EXPECT_TRUE(absl::IsUnavailable(stage.get()));
  EXPECT_THAT(plugin().Log(), ContainsRegex("NodeStageVolume ..*" + id_ + ".*tools that run on: mkfs.ext4"));
  const pid_t orphan = ToolRuns("mkfs.ext4").back();
  EXPECT_TRUE(Runs(orphan));
  plugin().options().environment.clear();
  Start();
  auto again = std::async(std::launch::async, [this] { return driver().Stage(id_, staging_).status; });
  EXPECT_EQ(again.wait_for(milliseconds(100)), std::future_status::timeout) << "the call has not waited for it";
  mkfs_.Release();
  EXPECT_OK(again.get());
  EXPECT_FALSE(Runs(orphan));
}

// A client that is stopped, or has forgotten its connection, does not answer when the server closes it.
TEST_F(InterruptedCall, IdleClientDoesNotDelayTheEnd) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (dir() / "csi.sock").copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd idle(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(idle.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_OK(driver().Send(ProbeRequest()));  // nobody reads this connection from now on
  const auto start = Clock::now();
  EXPECT_EQ(plugin().Terminate(), 0);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
  Start();
}

}  // namespace
}  // namespace mooring::testing
