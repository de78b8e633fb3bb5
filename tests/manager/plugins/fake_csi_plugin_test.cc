// The promise of the fake that no other test would miss: it refuses calls in the wrong order.
#include "tests/fakes/fake_csi_plugin.h"

#include "tests/manager/prelude.h"

namespace mooring::testing {
namespace {

using manager::Clock;

TEST(FakeCsiPluginTest, FollowsTheOrderOfCsiCalls) {
  FakeCsiFeatures features;
  features.attaches = false;
  const auto plugin = std::make_shared<FakeCsiPlugin>(features);
  FakeMounter kernel;
  plugin->volumes().MirrorInto(kernel);
  plugin->volumes().Add("vol");
  FakeSockets sockets;
  sockets.Serve("/a.sock", plugin);
  const auto channel = sockets.connector()("/a.sock", "a");
  const auto call = [&](const auto& request) { return Call(*channel, request, Clock::now() + seconds(20)).status(); };

  csi::v1::NodeStageVolumeRequest stage;
  stage.set_volume_id("vol");
  stage.set_staging_target_path("/staging");
  stage.mutable_volume_capability()->mutable_mount();
  csi::v1::NodePublishVolumeRequest publish;
  publish.set_volume_id("vol");
  publish.set_staging_target_path("/staging");
  publish.set_target_path("/target");
  publish.mutable_volume_capability()->mutable_mount();
  EXPECT_THAT(call(publish), FailsWith(Code::kFailedPrecondition, "not staged"));
  EXPECT_OK(call(stage));
  EXPECT_OK(call(publish));

  csi::v1::NodeUnstageVolumeRequest unstage;
  unstage.set_volume_id("vol");
  unstage.set_staging_target_path("/staging");
  EXPECT_THAT(call(unstage), FailsWith(Code::kFailedPrecondition, "'/target'"));
  csi::v1::NodeUnpublishVolumeRequest unpublish;
  unpublish.set_volume_id("vol");
  unpublish.set_target_path("/target");
  EXPECT_OK(call(unpublish));
  EXPECT_OK(call(unstage));
  EXPECT_THAT(kernel.With([](FakeKernel& fake) { return fake.mounts(); }), IsEmpty());
  EXPECT_THAT(plugin->Violations(), IsEmpty());
}

}  // namespace
}  // namespace mooring::testing
