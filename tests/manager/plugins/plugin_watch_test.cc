// The watch over a plugin: inspection, health and the end of its instances.
#include "manager/plugins/plugin_watch.h"

#include <stop_token>

#include "tests/manager/plugins/plugin_set_fixture.h"

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

class PluginWatchTest : public PluginSetFixture {
 protected:
  PluginWatchTest() { Register("p", "a", {kNode}); }

  // Every call of Inspect is due.
  static PluginWatch::Settings Always() {
    return {.probe_interval = {},
            .probe_time = seconds(20),
            .describe_interval = {},
            .describe_time = seconds(20),
            .retry = {}};
  }
  PluginWatch Watch(const PluginWatch::Settings& settings) {
    return PluginWatch(*plugins_, "p", sockets_.connector(), work_, settings);
  }
  Fingerprint Health(PluginType type = kNode) {
    for (const auto& role : plugins_->ListInUse("p")) {
      if (role.instance.type == type) return role.known;
    }
    return {};
  }
  void InspectFully(PluginWatch& watch) {
    watch.Inspect(never_);
    EXPECT_TRUE(watch.WaitUntilDescribed(Soon()));
  }
  // The events about health.
  std::vector<std::string> Changes() {
    std::vector<std::string> changes;
    const auto events = events_.Next(1, Clock::now());
    for (const Event& event : events.value_or(std::vector<Event>())) {
      if (event.kind == "health") changes.push_back(event.text);
    }
    return changes;
  }
  std::future<absl::Status> CallThatHangs(const std::shared_ptr<CsiChannel>& channel) {
    plugin_->volumes().Add("vol");
    plugin_->Hang("NodeGetVolumeStats");
    auto call = std::async(std::launch::async, [channel] {
      csi::v1::NodeGetVolumeStatsRequest request;
      request.set_volume_id("vol");
      return Call(*channel, request, Soon()).status();
    });
    EXPECT_TRUE(plugin_->WaitForCalls("NodeGetVolumeStats", 1));
    return call;
  }

  const std::shared_ptr<FakeCsiPlugin> plugin_ = Serve("a");
  const std::stop_token never_;
};

TEST_F(PluginWatchTest, InspectsAtOnceAndWhenItIsDue) {
  PluginWatch patient = Watch(WatchOnce());
  InspectFully(patient);
  while (patient.Next() < Soon()) patient.Inspect(never_);  // until it knows that the capabilities were read
  EXPECT_EQ(plugin_->Count("NodeGetCapabilities"), 1);
  plugin_->ClearLog();
  patient.Inspect(never_);
  EXPECT_EQ(plugin_->Count("Probe"), 0);
  PluginWatch quick = Watch(Always());
  InspectFully(quick);
  InspectFully(quick);
  EXPECT_EQ(plugin_->Count("NodeGetCapabilities"), 2);
}

TEST_F(PluginWatchTest, SendsOneProbeForBothRoles) {
  Register("p", "a", {kNode, kController});
  PluginWatch watch = Watch(Always());
  InspectFully(watch);
  EXPECT_EQ(plugin_->Count("Probe"), 1);
  EXPECT_TRUE(Health().healthy && Health(kController).healthy);
  plugin_->SetReady(false);
  watch.Inspect(never_);
  EXPECT_EQ(plugin_->Count("Probe"), 2);
  EXPECT_FALSE(Health().healthy || Health(kController).healthy);
}

TEST_F(PluginWatchTest, ProbesMoreOftenThanItReadsCapabilities) {
  PluginWatch::Settings settings = Always();
  settings.describe_interval = hours(1);
  PluginWatch watch = Watch(settings);
  InspectFully(watch);
  for (int i = 0; i < 2; ++i) watch.Inspect(never_);
  EXPECT_EQ(plugin_->Count("Probe"), 3);
  EXPECT_EQ(plugin_->Count("NodeGetCapabilities"), 1);
}

TEST_F(PluginWatchTest, OnlyProbeDecidesOnTheVerdict) {
  PluginWatch watch = Watch(Always());
  EXPECT_EQ(watch.Find("a"), nullptr);
  plugin_->Fail("NodeGetCapabilities", Internal("confused"));
  InspectFully(watch);
  EXPECT_OK(watch.Find("a")->probed);
  EXPECT_FALSE(Health().healthy);
  plugin_->SetReady(false);
  watch.Inspect(never_);
  EXPECT_THAT(watch.Find("a")->probed, FailsWith(Code::kUnavailable, "not ready"));
  Deregister("p", "a");
  watch.Inspect(never_);
  EXPECT_EQ(watch.Find("a"), nullptr);
}

TEST_F(PluginWatchTest, NewRoleIsInspectedAtOnce) {
  PluginWatch watch = Watch(WatchOnce());
  InspectFully(watch);
  Register("p", "a", {kNode, kController});
  InspectFully(watch);
  EXPECT_TRUE(Health(kController).healthy);
}

TEST_F(PluginWatchTest, StopEndsAnInspectionWithoutAVerdict) {
  PluginWatch watch = Watch(WatchOnce());
  plugin_->Hang("Probe");
  std::jthread thread([&](const std::stop_token& stop) { watch.Inspect(stop); });
  ASSERT_TRUE(plugin_->WaitForCalls("Probe", 1));
  thread.request_stop();
  thread.join();
  EXPECT_EQ(watch.Find("a"), nullptr);
  EXPECT_EQ(Health().at, Time());
}

TEST_F(PluginWatchTest, EndOfTheWatchEndsADescriptionWithoutAResult) {
  PluginWatch::Settings settings = Always();
  settings.describe_time = hours(1);
  plugin_->Hang("NodeGetInfo");
  {
    PluginWatch watch = Watch(settings);
    watch.Inspect(never_);
    ASSERT_TRUE(plugin_->WaitForCalls("NodeGetInfo", 1));
    watch.Inspect(never_);
  }
  EXPECT_EQ(plugin_->Count("NodeGetInfo"), 1) << "one at a time";
  EXPECT_EQ(Health().at, Time());
}

TEST_F(PluginWatchTest, ReportsOnlyChanges) {
  PluginWatch watch = Watch(Always());
  const auto inspect_twice = [&] {
    InspectFully(watch);
    InspectFully(watch);
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
  EXPECT_THAT(Changes(), ElementsAre(HasSubstr("is healthy"), HasSubstr("Probe: not ready yet"),
                                     HasSubstr("is healthy"), HasSubstr("is healthy")));
}

TEST_F(PluginWatchTest, FirstSuccessCompletesTheFingerprint) {
  PluginWatch watch = Watch(Always());
  plugin_->FailAlways("NodeGetInfo", Unavailable("starting"));
  InspectFully(watch);
  EXPECT_FALSE(Health().complete);
  plugin_->ClearFaults();
  InspectFully(watch);
  ASSERT_TRUE(Health().complete);
  EXPECT_TRUE(Health().traits.stages);
  EXPECT_EQ(Health().node_id, "node-1");
  plugin_->Die();
  InspectFully(watch);
  EXPECT_FALSE(Health().healthy);
  EXPECT_TRUE(Health().complete);
}

TEST_F(PluginWatchTest, StoppedInstanceIsInspectedOnceMore) {
  PluginWatch watch = Watch(Always());
  InspectFully(watch);
  const auto role = plugins_->ListInUse("p").front();
  Deregister("p", "a");
  EXPECT_TRUE(WaitForEvent("health", "a", "not healthy: it was stopped"));
  EXPECT_EQ(plugin_->Count("Probe"), 2);
  plugins_->Store(role, Fingerprint(role.known));
  watch.Inspect(never_);
  EXPECT_THAT(Changes(), SizeIs(2));
}

TEST_F(PluginWatchTest, StoppedInstanceThatAnswersMayFinishItsCalls) {
  PluginWatch watch = Watch(Always());
  InspectFully(watch);
  auto call = CallThatHangs(plugins_->WaitForNode("p", Soon())->channel);
  Deregister("p", "a");
  EXPECT_TRUE(WaitForEvent("health", "a", "it was stopped"));
  plugin_->Release();
  EXPECT_OK(call.get());
}

TEST_F(PluginWatchTest, CallsToAStoppedInstanceThatHangsEnd) {
  PluginWatch watch = Watch(Always());
  InspectFully(watch);
  auto call = CallThatHangs(plugins_->WaitForNode("p", Soon())->channel);
  plugin_->Hang("Probe");
  Deregister("p", "a");
  EXPECT_THAT(call.get(), FailsWith(Code::kCancelled, "closed"));
  EXPECT_TRUE(WaitForEvent("health", "a", "it was stopped; before:"));
}

}  // namespace
}  // namespace mooring::manager
