#include "manager/csi/connectors.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiPlugin;
using ::mooring::testing::FakeSockets;

TEST(OpenChannelsTest, ClosesOpenAndLaterChannels) {
  FakeSockets sockets;
  const auto plugin = std::make_shared<FakeCsiPlugin>();
  sockets.Serve("/run/csi.sock", plugin);
  OpenChannels channels(sockets.connector());
  const auto connect = channels.connector();
  connect("/run/csi.sock", "a").reset();  // the channel is destroyed
  const auto probe = [&](CsiChannel& channel) {
    return Call(channel, csi::v1::ProbeRequest(), Clock::now() + seconds(20)).status();
  };
  const auto channel = connect("/run/csi.sock", "a");
  EXPECT_OK(probe(*channel));
  plugin->Hang("Probe");
  auto hanging = std::async(std::launch::async, [&] { return probe(*channel); });
  ASSERT_TRUE(plugin->WaitForCalls("Probe", 2));
  channels.CloseAll();
  EXPECT_THAT(hanging.get(), FailsWith(Code::kCancelled, "closed"));
  EXPECT_THAT(probe(*connect("/run/csi.sock", "a")), FailsWith(Code::kCancelled, "closed"));
}

}  // namespace
}  // namespace mooring::manager
