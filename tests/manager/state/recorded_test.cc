// The recorders for the metrics get every call to a plugin and every commit, and change none.

#include <map>

#include "manager/csi/connectors.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/fakes/memory_state.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiPlugin;
using ::mooring::testing::FakeSockets;
using ::mooring::testing::MemoryState;

struct RecordedCalls final : CallRecorder {
  void Begin(std::string_view method) override { calls.push_back("begin " + std::string(method)); }
  void End(std::string_view method, absl::StatusCode code, std::optional<Clock::duration> took) override {
    EXPECT_TRUE(took.has_value());
    calls.push_back("end " + std::string(method) + " " + absl::StatusCodeToString(code));
  }
  std::vector<std::string> calls;
};

TEST(RecordedChannelTest, RecordsEachCallWithItsPluginAndOutcome) {
  FakeSockets sockets;
  const auto plugin = std::make_shared<FakeCsiPlugin>();
  sockets.Serve("/run/csi.sock", plugin);
  std::map<std::string, RecordedCalls> recorded;
  const CsiConnector connect =
      Recorded(sockets.connector(), [&recorded](const std::string& name) -> CallRecorder& { return recorded[name]; });
  const auto channel = connect("/run/csi.sock", "fake.csi");
  const auto until = Clock::now() + seconds(20);
  EXPECT_OK(Call(*channel, csi::v1::ProbeRequest(), until));
  plugin->Fail("GetPluginInfo", Internal("out of paper"));
  EXPECT_THAT(Call(*channel, csi::v1::GetPluginInfoRequest(), until), FailsWith(Code::kInternal, "out of paper"));
  EXPECT_THAT(recorded["fake.csi"].calls,
              ElementsAre("begin Probe", "end Probe OK", "begin GetPluginInfo", "end GetPluginInfo INTERNAL"));
  channel->Close();
  EXPECT_THAT(Call(*channel, csi::v1::ProbeRequest(), until), FailsWith(Code::kCancelled, ""));
  EXPECT_EQ(recorded["fake.csi"].calls.back(), "end Probe CANCELLED");
  EXPECT_EQ(recorded.size(), 1U);
}

TEST(RecordedStateTest, RecordsEachCommit) {
  std::vector<std::string> codes;
  MemoryState state;
  state.RecordCommits([&](absl::StatusCode code, Clock::duration took) {
    EXPECT_GE(took, Clock::duration::zero());
    codes.push_back(absl::StatusCodeToString(code));
  });
  Transaction transaction;
  transaction.puts.push_back({"key", "value"});
  EXPECT_OK(state.Commit(transaction));
  transaction.compares.push_back({"key", 99});
  EXPECT_THAT(state.Commit(transaction), FailsWith(Code::kAborted, ""));
  EXPECT_THAT(codes, ElementsAre("OK", "ABORTED"));
}

}  // namespace
}  // namespace mooring::manager
