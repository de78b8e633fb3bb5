// The watch over a plugin: inspection, health and the end of its instances.
#include "manager/plugins/plugin_watch.h"

#include <stop_token>

#include "tests/fakes/fake_csi_plugin.h"
#include "tests/manager/plugins/watch_threads.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::ChannelTo;
using ::mooring::testing::FakeCsiFeatures;
using ::mooring::testing::FakeCsiPlugin;
using ::mooring::testing::WatchOnce;

class FingerprintTest : public ::testing::Test {
 protected:
  Fingerprint Inspect(const Fingerprint& known = {}, PluginType type = PluginType::kNode,
                      Clock::time_point until = Soon()) {
    return InspectPlugin(*channel_, type, known, until);
  }

  std::shared_ptr<FakeCsiPlugin> plugin_ = std::make_shared<FakeCsiPlugin>();
  std::shared_ptr<CsiChannel> channel_ = ChannelTo(plugin_);
};

TEST_F(FingerprintTest, CachesPluginCapabilitiesAndNodeInfo) {
  Fingerprint found = Inspect();
  ASSERT_TRUE(found.healthy) << found.problem;
  found = Inspect(found);
  found = Inspect(found);
  EXPECT_EQ(plugin_->Count("GetPluginCapabilities"), 1);
  EXPECT_EQ(plugin_->Count("NodeGetInfo"), 1);
  EXPECT_EQ(plugin_->Count("Probe"), 3);
  EXPECT_EQ(plugin_->Count("NodeGetCapabilities"), 3);
  EXPECT_EQ(plugin_->Count("ControllerGetCapabilities"), 0);
  EXPECT_EQ(found.node_id, "node-1");
  EXPECT_TRUE(found.traits.stages && found.traits.controller_service && found.traits.expands_online);
  EXPECT_FALSE(found.traits.publishes);
}

TEST_F(FingerprintTest, AsksForControllerCapabilities) {
  const Fingerprint found = Inspect({}, PluginType::kController);
  ASSERT_TRUE(found.healthy) << found.problem;
  EXPECT_TRUE(found.traits.publishes && found.traits.creates && found.traits.snapshots && found.traits.clones);
  EXPECT_EQ(plugin_->Count("NodeGetInfo"), 0);
  EXPECT_EQ(found.node_id, "");
}

TEST_F(FingerprintTest, AbsentReadyIsReady) {
  FakeCsiFeatures features;
  features.says_ready = false;
  plugin_->SetFeatures(features);
  EXPECT_TRUE(Inspect().healthy);
}

TEST_F(FingerprintTest, NotReadyIsUnhealthy) {
  plugin_->SetReady(false);
  const Fingerprint found = Inspect();
  EXPECT_FALSE(found.healthy);
  EXPECT_FALSE(found.complete);
  EXPECT_EQ(found.problem, "Probe: not ready yet");
}

TEST_F(FingerprintTest, ErrorNamesTheCallAndThePluginsMessage) {
  for (const char* const call :
       {"GetPluginInfo", "GetPluginCapabilities", "NodeGetInfo", "Probe", "NodeGetCapabilities"}) {
    plugin_->Fail(call, Internal("the backend is on fire"));
    const Fingerprint found = Inspect();
    EXPECT_FALSE(found.healthy) << call;
    EXPECT_EQ(found.problem, std::string(call) + ": the backend is on fire");
  }
}

TEST_F(FingerprintTest, KeepsFactsWhileThePluginIsSick) {
  const Fingerprint known = Inspect();
  plugin_->Die();
  const Fingerprint sick = Inspect(known);
  EXPECT_FALSE(sick.healthy);
  EXPECT_TRUE(sick.complete);
  EXPECT_TRUE(sick.SameDescription(known));
}

TEST_F(FingerprintTest, AsksAgainAfterThePluginWasSick) {
  const Fingerprint known = Inspect();
  plugin_->Die();
  const Fingerprint sick = Inspect(known);
  FakeCsiFeatures other;
  other.version = "2.0";
  other.stages = false;
  plugin_->SetFeatures(other);
  plugin_->Revive();
  const Fingerprint found = Inspect(sick);
  EXPECT_TRUE(found.healthy);
  EXPECT_EQ(found.vendor_version, "2.0");
  EXPECT_FALSE(found.traits.stages);
}

TEST_F(FingerprintTest, MissingNodeIdIsUnhealthy) {
  FakeCsiFeatures features;
  features.node_id = "";
  plugin_->SetFeatures(features);
  EXPECT_THAT(Inspect().problem, HasSubstr("no node id"));
}

TEST_F(FingerprintTest, EndsAtTheDeadline) {
  plugin_->Hang("Probe");
  const Fingerprint found = Inspect({}, PluginType::kNode, Clock::now() + milliseconds(20));
  EXPECT_FALSE(found.healthy);
  EXPECT_THAT(found.problem, HasSubstr("Probe: no answer in time"));
}

class PluginWatchTest : public ::testing::Test {
 protected:
  // Every call of Inspect is due.
  static PluginWatch::Settings Always() {
    return {.probe_interval = {},
            .probe_time = seconds(20),
            .describe_interval = {},
            .describe_time = seconds(20),
            .retry = {}};
  }

  std::shared_ptr<InstanceManager> AddRole(PluginType type = PluginType::kNode) {
    const InstanceInfo instance = {.type = type,
                                   .name = "fake.csi",
                                   .version = "",
                                   .socket_path = "/a.sock",
                                   .instance_id = "a",
                                   .provider = "",
                                   .mount_point = "",
                                   .container_mount_point = ""};
    return roles_.emplace_back(std::make_shared<InstanceManager>(
        instance, channel_, milliseconds(50),
        [this](const InstanceInfo&, const Fingerprint& found, const Fingerprint&) {
          changes_.push_back(found.healthy ? "healthy " + found.vendor_version : found.problem);
        }));
  }
  PluginWatch Watch(const PluginWatch::Settings& settings) {
    return PluginWatch([this] { return roles_; },
                       [this](const std::string&, const std::string&) { return ChannelTo(plugin_); }, settings);
  }
  std::future<absl::Status> CallThatHangs() {
    plugin_->volumes().Add("vol");
    plugin_->Hang("NodeGetVolumeStats");
    auto call = std::async(std::launch::async, [this] {
      csi::v1::NodeGetVolumeStatsRequest request;
      request.set_volume_id("vol");
      return Call(*channel_, request, Soon()).status();
    });
    EXPECT_TRUE(plugin_->WaitForCalls("NodeGetVolumeStats", 1));
    return call;
  }

  std::shared_ptr<FakeCsiPlugin> plugin_ = std::make_shared<FakeCsiPlugin>();
  std::shared_ptr<CsiChannel> channel_ = ChannelTo(plugin_);
  PluginWatch::Instances roles_;
  std::vector<std::string> changes_;
  const std::stop_token never_;
};

TEST_F(PluginWatchTest, InspectsAtOnceAndWhenItIsDue) {
  AddRole();
  PluginWatch patient = Watch(WatchOnce());
  patient.Inspect(never_);
  patient.Inspect(never_);
  EXPECT_EQ(plugin_->Count("NodeGetCapabilities"), 1);
  EXPECT_GT(patient.Next(), Soon());
  PluginWatch quick = Watch(Always());
  quick.Inspect(never_);
  quick.Inspect(never_);
  EXPECT_EQ(plugin_->Count("NodeGetCapabilities"), 3);
}

TEST_F(PluginWatchTest, SendsOneProbeForBothRoles) {
  const auto node = AddRole();
  const auto controller = AddRole(PluginType::kController);
  PluginWatch watch = Watch(Always());
  watch.Inspect(never_);
  EXPECT_EQ(plugin_->Count("Probe"), 1);
  EXPECT_TRUE(node->fingerprint().healthy && controller->fingerprint().healthy);
  plugin_->SetReady(false);
  watch.Inspect(never_);
  EXPECT_EQ(plugin_->Count("Probe"), 2);
  EXPECT_FALSE(node->fingerprint().healthy || controller->fingerprint().healthy);
}

TEST_F(PluginWatchTest, ProbesMoreOftenThanItReadsCapabilities) {
  PluginWatch::Settings settings = Always();
  settings.describe_interval = hours(1);
  AddRole();
  PluginWatch watch = Watch(settings);
  for (int i = 0; i < 3; ++i) watch.Inspect(never_);
  EXPECT_EQ(plugin_->Count("Probe"), 3);
  EXPECT_EQ(plugin_->Count("NodeGetCapabilities"), 1);
}

TEST_F(PluginWatchTest, OnlyProbeDecidesOnTheVerdict) {
  AddRole();
  PluginWatch watch = Watch(Always());
  EXPECT_EQ(watch.Find("a"), nullptr);
  plugin_->Fail("NodeGetCapabilities", Internal("confused"));
  watch.Inspect(never_);
  EXPECT_OK(watch.Find("a")->probed);
  plugin_->SetReady(false);
  watch.Inspect(never_);
  EXPECT_THAT(watch.Find("a")->probed, FailsWith(Code::kUnavailable, "not ready"));
  roles_.clear();
  watch.Inspect(never_);
  EXPECT_EQ(watch.Find("a"), nullptr);
}

TEST_F(PluginWatchTest, NewRoleIsInspectedAtOnce) {
  AddRole();
  PluginWatch watch = Watch(WatchOnce());
  watch.Inspect(never_);
  const auto controller = AddRole(PluginType::kController);
  watch.Inspect(never_);
  EXPECT_TRUE(controller->fingerprint().healthy);
}

TEST_F(PluginWatchTest, StopEndsAnInspectionWithoutAVerdict) {
  const auto role = AddRole();
  PluginWatch watch = Watch(WatchOnce());
  plugin_->Hang("Probe");
  std::jthread thread([&](const std::stop_token& stop) { watch.Inspect(stop); });
  ASSERT_TRUE(plugin_->WaitForCalls("Probe", 1));
  thread.request_stop();
  thread.join();
  EXPECT_EQ(watch.Find("a"), nullptr);
  EXPECT_EQ(role->fingerprint().at, Time());
}

TEST_F(PluginWatchTest, ReportsOnlyChanges) {
  AddRole();
  PluginWatch watch = Watch(Always());
  const auto inspect_twice = [&] {
    watch.Inspect(never_);
    watch.Inspect(never_);
  };
  inspect_twice();
  plugin_->SetReady(false);
  inspect_twice();
  FakeCsiFeatures grown = plugin_->features();
  grown.ready = true;
  grown.node_expands = false;
  plugin_->SetFeatures(grown);
  inspect_twice();
  grown.single_writer = false;
  plugin_->SetFeatures(grown);
  inspect_twice();
  EXPECT_THAT(changes_, ElementsAre("healthy 1.0", "Probe: not ready yet", "healthy 1.0", "healthy 1.0"));
}

TEST_F(PluginWatchTest, FirstSuccessCompletesTheFingerprint) {
  const auto role = AddRole();
  PluginWatch watch = Watch(Always());
  plugin_->FailAlways("NodeGetInfo", Unavailable("starting"));
  watch.Inspect(never_);
  EXPECT_FALSE(role->fingerprint().complete);
  plugin_->ClearFaults();
  watch.Inspect(never_);
  ASSERT_TRUE(role->fingerprint().complete);
  EXPECT_TRUE(role->fingerprint().traits.stages);
  EXPECT_EQ(role->fingerprint().node_id, "node-1");
  plugin_->Die();
  watch.Inspect(never_);
  EXPECT_FALSE(role->fingerprint().healthy);
  EXPECT_TRUE(role->fingerprint().complete);
}

TEST_F(PluginWatchTest, StopOfAnInstanceInspectsOnceMoreAndEndsHealth) {
  const auto role = AddRole();
  PluginWatch watch = Watch(Always());
  watch.Inspect(never_);
  role->Stop();
  EXPECT_EQ(plugin_->Count("Probe"), 2);
  watch.Inspect(never_);
  role->Stop();
  EXPECT_FALSE(role->fingerprint().healthy);
  EXPECT_THAT(changes_, ElementsAre("healthy 1.0", "it was stopped"));
}

TEST_F(PluginWatchTest, StopOfAnInstanceLetsCallsToAnAnsweringPluginFinish) {
  const auto role = AddRole();
  auto call = CallThatHangs();
  role->Stop();
  plugin_->Release();
  EXPECT_OK(call.get());
}

TEST_F(PluginWatchTest, StopOfAnInstanceEndsCallsToAHangingPlugin) {
  const auto role = AddRole();
  auto call = CallThatHangs();
  plugin_->Hang("Probe");
  const Clock::time_point before = Clock::now();
  role->Stop();
  EXPECT_LT(Clock::now() - before, seconds(10));
  EXPECT_THAT(call.get(), FailsWith(Code::kCancelled, "closed"));
  EXPECT_FALSE(role->fingerprint().healthy);
}

}  // namespace
}  // namespace mooring::manager
