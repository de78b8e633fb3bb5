#include "tests/fakes/fake_csi_plugin.h"

#include <gmock/gmock.h>

#include <future>

#include "tests/fakes/fake_plugin_directory.h"
#include "tests/support/status_matchers.h"

namespace mooring::testing {
namespace {

using manager::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FakeCsiPluginTest : public ::testing::Test {
 protected:
  FakeCsiPluginTest() { sockets_.Serve("/a.sock", plugin_); }

  absl::Status Stage(Clock::time_point until = Clock::now() + seconds(20)) {
    csi::v1::NodeStageVolumeRequest request;
    request.set_volume_id("vol");
    request.set_staging_target_path("/staging");
    request.mutable_volume_capability()->mutable_mount();
    (*request.mutable_publish_context())["device"] = "/dev/fake-vol";
    return Call(*channel_, request, until).status();
  }
  absl::Status Publish(const std::string& target) {
    csi::v1::NodePublishVolumeRequest request;
    request.set_volume_id("vol");
    request.set_staging_target_path("/staging");
    request.set_target_path(target);
    request.mutable_volume_capability()->mutable_mount();
    (*request.mutable_publish_context())["device"] = "/dev/fake-vol";
    return Call(*channel_, request, Clock::now() + seconds(20)).status();
  }

  FakeCsiFeatures NotAttaching() {
    FakeCsiFeatures features;
    features.attaches = false;
    return features;
  }

  std::shared_ptr<FakeCsiPlugin> plugin_ = std::make_shared<FakeCsiPlugin>(NotAttaching());
  FakeSockets sockets_;
  std::shared_ptr<manager::CsiChannel> channel_ = sockets_.connector()("/a.sock", "a");
};

TEST_F(FakeCsiPluginTest, FollowsTheOrderOfCsiCalls) {
  FakeMounter kernel;
  plugin_->volumes().MirrorInto(kernel);
  plugin_->volumes().Add("vol");
  EXPECT_THAT(Publish("/target"), FailsWith(absl::StatusCode::kFailedPrecondition, "not staged"));
  EXPECT_OK(Stage());
  EXPECT_OK(Stage());
  EXPECT_OK(Publish("/target"));
  EXPECT_TRUE(kernel.Find("/staging")->mount.has_value());
  EXPECT_TRUE(kernel.Find("/target")->mount.has_value());
  EXPECT_EQ(kernel.Find("/staging")->device, kernel.Find("/target")->device);

  csi::v1::NodeUnstageVolumeRequest unstage;
  unstage.set_volume_id("vol");
  unstage.set_staging_target_path("/staging");
  EXPECT_THAT(Call(*channel_, unstage, Clock::now() + seconds(20)),
              FailsWith(absl::StatusCode::kFailedPrecondition, "'/target'"));
  csi::v1::NodeUnpublishVolumeRequest unpublish;
  unpublish.set_volume_id("vol");
  unpublish.set_target_path("/target");
  EXPECT_OK(Call(*channel_, unpublish, Clock::now() + seconds(20)));
  EXPECT_OK(Call(*channel_, unstage, Clock::now() + seconds(20)));
  EXPECT_THAT(kernel.With([](FakeKernel& fake) { return fake.mounts().size(); }), 0U);
  EXPECT_THAT(plugin_->Violations(), IsEmpty());
}

TEST_F(FakeCsiPluginTest, BlockVolumesAreDeviceNodes) {
  FakeMounter kernel;
  plugin_->volumes().MirrorInto(kernel);
  plugin_->volumes().Add("vol", 1 << 20);
  csi::v1::NodeStageVolumeRequest stage;
  stage.set_volume_id("vol");
  stage.set_staging_target_path("/staging");
  stage.mutable_volume_capability()->mutable_block();
  EXPECT_OK(Call(*channel_, stage, Clock::now() + seconds(20)));
  csi::v1::NodePublishVolumeRequest publish;
  publish.set_volume_id("vol");
  publish.set_staging_target_path("/staging");
  publish.set_target_path("/pods/target");
  publish.mutable_volume_capability()->mutable_block();
  EXPECT_OK(Call(*channel_, publish, Clock::now() + seconds(20)));
  EXPECT_EQ(kernel.Find("/pods/target")->kind, PathInfo::Kind::kBlockDevice);
}

TEST_F(FakeCsiPluginTest, HangsUntilReleased) {
  plugin_->volumes().Add("vol");
  plugin_->Hang("NodeStageVolume");
  EXPECT_THAT(Stage(Clock::now() + milliseconds(10)),
              FailsWith(absl::StatusCode::kDeadlineExceeded, "NodeStageVolume"));

  auto released = std::async(std::launch::async, [this] { return Stage(); });
  EXPECT_TRUE(plugin_->WaitForCalls("NodeStageVolume", 2));
  plugin_->Release();
  EXPECT_OK(released.get());

  plugin_->Hang("NodeStageVolume", "vol");
  auto dead = std::async(std::launch::async, [this] { return Stage(); });
  EXPECT_TRUE(plugin_->WaitForCalls("NodeStageVolume", 3));
  plugin_->Die();
  EXPECT_THAT(dead.get(), FailsWith(absl::StatusCode::kUnavailable, "dead"));

  plugin_->Revive();
  auto closed = std::async(std::launch::async, [this] { return Stage(); });
  EXPECT_TRUE(plugin_->WaitForCalls("NodeStageVolume", 4));
  channel_->Close();
  EXPECT_THAT(closed.get(), FailsWith(absl::StatusCode::kCancelled, "closed"));
}

TEST_F(FakeCsiPluginTest, FailsOnRequest) {
  plugin_->volumes().Add("vol");
  plugin_->Fail("NodeStageVolume", Unavailable("not now"), /*nth=*/2);
  EXPECT_OK(Stage());
  EXPECT_THAT(Stage(), FailsWith(absl::StatusCode::kUnavailable, "not now"));
  EXPECT_OK(Stage());
  plugin_->Fail("NodePublishVolume", Internal("lost"), 1, 1, FakeCsiPlugin::When::kAfter);
  EXPECT_THAT(Publish("/target"), FailsWith(absl::StatusCode::kInternal, "lost"));
  EXPECT_EQ(plugin_->volumes().published_count(), 1U);
  EXPECT_THAT(plugin_->Calls(), ElementsAre("NodeStageVolume vol", "NodeStageVolume vol", "NodeStageVolume vol",
                                            "NodePublishVolume vol"));
  sockets_.Remove("/a.sock");
  EXPECT_THAT(Stage(), FailsWith(absl::StatusCode::kUnavailable, "nobody serves"));
}

TEST_F(FakeCsiPluginTest, TheDirectoryWaitsForHealth) {
  FakePluginDirectory directory;
  EXPECT_THAT(directory.WaitForNode("fake.csi", Clock::now()), FailsWith(absl::StatusCode::kUnavailable, "'fake.csi'"));
  directory.Add(plugin_);
  EXPECT_OK(directory.WaitForNode("fake.csi", Clock::now()));
  EXPECT_TRUE(directory.Find("fake.csi")->schedulable());
  directory.SetHealthy("fake.csi", true, false, "out of order");
  EXPECT_THAT(directory.PickController("fake.csi", Clock::now()),
              FailsWith(absl::StatusCode::kUnavailable, "out of order"));
  EXPECT_FALSE(directory.Find("fake.csi")->schedulable());
}

}  // namespace
}  // namespace mooring::testing
