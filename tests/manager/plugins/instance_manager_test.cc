// The inspection of a plugin instance.
#include "manager/plugins/instance_manager.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/fake_csi_plugin.h"
#include "tests/support/status_matchers.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::ChannelTo;
using ::mooring::testing::FailsWith;
using ::mooring::testing::FakeCsiFeatures;
using ::mooring::testing::FakeCsiPlugin;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Clock::time_point Soon() { return Clock::now() + seconds(20); }

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

// Records the changes that an InstanceManager reports.
class HealthChanges {
 public:
  InstanceManager::OnChange Callback() {
    return [this](const InstanceInfo&, const Fingerprint& found, const Fingerprint&) {
      const std::lock_guard<std::mutex> lock(mutex_);
      texts_.push_back(found.healthy ? "healthy " + found.vendor_version : found.problem);
      changed_.notify_all();
    };
  }
  bool WaitFor(std::size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, seconds(20), [&] { return texts_.size() >= count; });
  }
  std::vector<std::string> Texts() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return texts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
};

class InstanceManagerTest : public ::testing::Test {
 protected:
  static InstanceManager::Settings Quick() {
    return {.interval = milliseconds(2),
            .interval_sick = milliseconds(2),
            .deadline = seconds(20),
            .last_inspection = milliseconds(50),
            .retry_incomplete = milliseconds(2)};
  }
  // The instance inspects its plugin once, and again only on request.
  static InstanceManager::Settings Patient() {
    InstanceManager::Settings settings = Quick();
    settings.interval = settings.interval_sick = settings.retry_incomplete = hours(1);
    return settings;
  }

  static bool BecomesComplete(const InstanceManager& manager) {
    const Clock::time_point until = Soon();
    while (!manager.fingerprint().complete && Clock::now() < until) std::this_thread::yield();
    return manager.fingerprint().complete;
  }

  std::unique_ptr<InstanceManager> Start(const InstanceManager::Settings& settings) {
    InstanceInfo instance;
    instance.name = "fake.csi";
    instance.instance_id = "a";
    instance.socket_path = "/a.sock";
    return std::make_unique<InstanceManager>(instance, channel_, settings, changes_.Callback());
  }

  std::shared_ptr<FakeCsiPlugin> plugin_ = std::make_shared<FakeCsiPlugin>();
  std::shared_ptr<CsiChannel> channel_ = ChannelTo(plugin_);
  HealthChanges changes_;
};

TEST_F(InstanceManagerTest, InspectsAtOnceAndRepeatedly) {
  const auto patient = Start(Patient());
  EXPECT_TRUE(plugin_->WaitForCalls("NodeGetCapabilities", 1));
  patient->Stop();
  const auto quick = Start(Quick());
  EXPECT_TRUE(plugin_->WaitForCalls("NodeGetCapabilities", 6));
}

TEST_F(InstanceManagerTest, ReportsOnlyChanges) {
  const auto manager = Start(Quick());
  EXPECT_TRUE(plugin_->WaitForCalls("Probe", 5));
  EXPECT_THAT(changes_.Texts(), ElementsAre("healthy 1.0"));
  plugin_->SetReady(false);
  ASSERT_TRUE(changes_.WaitFor(2));
  EXPECT_TRUE(plugin_->WaitForCalls("Probe", plugin_->Count("Probe") + 3));
  EXPECT_THAT(changes_.Texts(), ElementsAre("healthy 1.0", "Probe: not ready yet"));

  FakeCsiFeatures grown = plugin_->features();
  grown.ready = true;
  grown.node_expands = false;
  plugin_->SetFeatures(grown);
  ASSERT_TRUE(changes_.WaitFor(3));
  grown.single_writer = false;
  plugin_->SetFeatures(grown);
  ASSERT_TRUE(changes_.WaitFor(4));
  EXPECT_THAT(changes_.Texts(), ElementsAre("healthy 1.0", "Probe: not ready yet", "healthy 1.0", "healthy 1.0"));
}

TEST_F(InstanceManagerTest, FirstSuccessCompletesTheFingerprint) {
  plugin_->FailAlways("NodeGetInfo", Unavailable("starting"));
  const auto manager = Start(Quick());
  EXPECT_TRUE(plugin_->WaitForCalls("NodeGetInfo", 3));
  EXPECT_FALSE(manager->fingerprint().complete);
  plugin_->ClearFaults();
  ASSERT_TRUE(BecomesComplete(*manager));
  EXPECT_TRUE(manager->fingerprint().traits.stages);
  EXPECT_EQ(manager->fingerprint().node_id, "node-1");
}

TEST_F(InstanceManagerTest, StaysCompleteWhileThePluginIsSick) {
  const auto manager = Start(Quick());
  ASSERT_TRUE(BecomesComplete(*manager));
  ASSERT_TRUE(changes_.WaitFor(1));
  plugin_->Die();
  ASSERT_TRUE(changes_.WaitFor(2));
  EXPECT_TRUE(manager->fingerprint().complete);
}

TEST_F(InstanceManagerTest, StopInspectsOnceMoreAndEndsHealth) {
  const auto manager = Start(Patient());
  ASSERT_TRUE(BecomesComplete(*manager));
  ASSERT_TRUE(changes_.WaitFor(1));
  manager->Stop();
  EXPECT_EQ(plugin_->Count("Probe"), 2);
  EXPECT_FALSE(manager->fingerprint().healthy);
  EXPECT_THAT(changes_.Texts(), ElementsAre("healthy 1.0", "it was stopped"));
  manager->Stop();
}

TEST_F(InstanceManagerTest, StopLetsCallsToAnAnsweringPluginFinish) {
  plugin_->volumes().Add("vol");
  const auto manager = Start(Patient());
  ASSERT_TRUE(BecomesComplete(*manager));
  plugin_->Hang("NodeGetVolumeStats");
  csi::v1::NodeGetVolumeStatsRequest request;
  request.set_volume_id("vol");
  auto call = std::async(std::launch::async, [&] { return Call(*channel_, request, Soon()).status(); });
  ASSERT_TRUE(plugin_->WaitForCalls("NodeGetVolumeStats", 1));
  manager->Stop();
  plugin_->Release();
  EXPECT_OK(call.get());
}

TEST_F(InstanceManagerTest, StopEndsCallsToAHangingPlugin) {
  plugin_->volumes().Add("vol");
  const auto manager = Start(Quick());
  ASSERT_TRUE(BecomesComplete(*manager));
  const int looks = plugin_->Count("Probe");
  plugin_->Hang("Probe");
  plugin_->Hang("NodeGetVolumeStats");
  csi::v1::NodeGetVolumeStatsRequest request;
  request.set_volume_id("vol");
  auto call = std::async(std::launch::async, [&] { return Call(*channel_, request, Soon()).status(); });
  ASSERT_TRUE(plugin_->WaitForCalls("NodeGetVolumeStats", 1));
  ASSERT_TRUE(plugin_->WaitForCalls("Probe", looks + 1));

  const Clock::time_point before = Clock::now();
  manager->Stop();
  EXPECT_LT(Clock::now() - before, seconds(10));
  EXPECT_THAT(call.get(), FailsWith(absl::StatusCode::kCancelled, "closed"));
  EXPECT_FALSE(manager->fingerprint().healthy);
}

}  // namespace
}  // namespace mooring::manager
