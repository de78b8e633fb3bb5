// The set of plugins: the newest instance takes over, and calls get a healthy one.
#include "manager/plugins/plugin_set.h"

#include <set>

#include "tests/manager/plugins/plugin_set_fixture.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiPlugin;
using ::testing::Field;

using PluginSetTest = PluginSetFixture;

TEST_F(PluginSetTest, StartsWithTheRegisteredInstances) {
  Run("p", "1", {kNode, kController});
  StartWatches();
  EXPECT_EQ(Front("p"), "1");
  EXPECT_OK(plugins_->PickController("p", Soon()));
}

TEST_F(PluginSetTest, GivesNewInstancesAtOnce) {
  StartWatches();
  Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  Run("q", "2", {kController});
  EXPECT_OK(plugins_->PickController("q", Soon()));
}

TEST_F(PluginSetTest, DeregisteredInstanceIsNotUsed) {
  StartWatches();
  const auto plugin = Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  Deregister("p", "1");
  EXPECT_TRUE(WaitForEvent("health", "1", "it was stopped"));
  EXPECT_THAT(Front("p", Clock::now()), HasSubstr("plugin 'p' has no node instance"));
}

TEST_F(PluginSetTest, StartsAnInstanceOnce) {
  StartWatches();
  Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  Run("p", "1");
  Run("q", "2");
  EXPECT_EQ(Front("q"), "2");
  EXPECT_EQ(connected_, 2);
}

TEST_F(PluginSetTest, NewInstanceReplacesTheOldOne) {
  StartWatches();
  const auto old_one = Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  Run("p", "2");
  EXPECT_TRUE(WaitForEvent("health", "2", "healthy"));
  EXPECT_EQ(Front("p"), "2");
  EXPECT_TRUE(WaitForEvent("health", "1", "it was stopped"));
  const auto status = plugins_->Find("p");
  ASSERT_OK(status);
  EXPECT_EQ(status->nodes, (RoleCount{1, 1}));
}

TEST_F(PluginSetTest, NewInstanceReplacesAHangingOne) {
  watching_.probe_time = milliseconds(20);
  StartWatches();
  const auto hung = Run("p", "1");
  hung->Hang(FakeCsiPlugin::kAnyCall);
  EXPECT_TRUE(hung->WaitForCalls("Probe", 1));
  Run("p", "2");
  EXPECT_EQ(Front("p"), "2");
}

TEST_F(PluginSetTest, LastInspectionOfAHangingInstanceDelaysNoOther) {
  last_inspection_ = seconds(20);
  watching_.probe_time = milliseconds(20);
  OpenSet();
  StartWatches();
  const auto hung = Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  hung->Hang(FakeCsiPlugin::kAnyCall);
  const Clock::time_point before = Clock::now();
  Run("p", "2");
  EXPECT_TRUE(WaitForEvent("health", "2", "healthy"));
  Run("q", "3");
  EXPECT_EQ(Front("q"), "3");
  EXPECT_LT(Clock::now() - before, last_inspection_ / 2);
  hung->Release();
  EXPECT_TRUE(WaitForEvent("health", "1", "it was stopped"));
}

TEST_F(PluginSetTest, PreviousInstanceReturnsWhenTheFrontIsDeregistered) {
  StartWatches();
  Run("p", "1");
  Run("p", "2");
  EXPECT_TRUE(WaitForEvent("health", "2", "healthy"));
  EXPECT_EQ(Front("p"), "2");
  Deregister("p", "2");
  EXPECT_TRUE(WaitForEvent("health", "2", "it was stopped"));
  EXPECT_EQ(Front("p"), "1");
}

TEST_F(PluginSetTest, DeregisteringAnInstanceLeavesOthersRunning) {
  StartWatches();
  Run("p", "1");
  Run("p", "2");
  EXPECT_TRUE(WaitForEvent("health", "2", "healthy"));
  const int connected = connected_;
  Deregister("p", "1");
  Deregister("p", "never was");
  EXPECT_TRUE(WaitForEvent("deregistered", "1"));
  EXPECT_EQ(Front("p"), "2");
  EXPECT_EQ(connected_, connected);
  EXPECT_TRUE(plugins_->Find("p")->instances.front().fingerprint.healthy);
}

TEST_F(PluginSetTest, StopWaitsForNoPlugin) {
  last_inspection_ = hours(1);
  OpenSet();
  StartWatches();
  const auto plugin = Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  plugin->Hang(FakeCsiPlugin::kAnyCall);
  auto waiting = std::async(std::launch::async, [&] { return Front("never", Clock::now() + hours(1)); });
  auto stopped = std::async(std::launch::async, [&] { plugins_->Stop(); });
  EXPECT_EQ(stopped.wait_until(Soon()), std::future_status::ready);
  EXPECT_THAT(waiting.get(), HasSubstr("stopping"));
  plugin->Release();
}

// The instance at an endpoint has the same id again.
TEST_F(PluginSetTest, LastInspectionClosesOnlyTheOldChannel) {
  StartWatches();
  const auto plugin = Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  watches_.reset();
  plugin->Hang("Probe");
  Deregister("p", "1");  // its last inspection hangs
  Register("p", "1");
  EXPECT_TRUE(WaitForEvent("health", "1", "it was stopped; before:"));
  plugin->Release();
  StartWatches();
  const auto ready = plugins_->WaitForNode("p", Soon());
  ASSERT_OK(ready);
  EXPECT_OK(Call(*ready->channel, csi::v1::NodeGetInfoRequest(), Soon()));
}

TEST_F(PluginSetTest, HangingControllerDelaysNoNode) {
  watching_.describe_time = hours(1);
  StartWatches(milliseconds(2));
  const auto plugin = Serve("1");
  plugin->Hang("ControllerGetCapabilities");
  Register("p", "1", {kController, kNode});
  EXPECT_EQ(Front("p"), "1");
  ASSERT_TRUE(plugin->WaitForCalls("ControllerGetCapabilities", 1));
  plugin->Fail("Probe", Internal("out of paper"));
  EXPECT_TRUE(WaitForEvent("health", "1", "node instance is not healthy: Probe: out of paper")) << "it is probed on";
  const auto is_healthy = [&] { return plugins_->Find("p")->nodes.healthy == 1; };
  EXPECT_TRUE(testing::WaitUntil(is_healthy, seconds(20)));
  EXPECT_EQ(plugins_->Find("p")->controllers.healthy, 0);
}

TEST_F(PluginSetTest, HangingNodeDelaysNoController) {
  watching_.describe_time = hours(1);
  StartWatches(milliseconds(2));
  const auto plugin = Serve("1");
  plugin->Hang("NodeGetInfo");
  Register("p", "1", {kController, kNode});
  EXPECT_OK(plugins_->PickController("p", Soon()));
  EXPECT_EQ(plugins_->Find("p")->nodes.healthy, 0);
}

TEST_F(PluginSetTest, FailedProbeIsNewerThanADescriptionThatBeganBefore) {
  const auto plugin = Run("p", "1");
  const auto in_use = plugins_->ListInUse("p");
  ASSERT_THAT(in_use, SizeIs(1));
  plugins_->StoreFailure(in_use.front(), Internal("out of paper"));
  Fingerprint found;
  found.healthy = found.complete = true;
  found.at = std::chrono::system_clock::now();
  plugins_->Store(in_use.front(), found);
  EXPECT_EQ(plugins_->Find("p")->instances.front().fingerprint.problem, "out of paper");
  plugins_->Store(plugins_->ListInUse("p").front(), found);
  EXPECT_TRUE(plugins_->Find("p")->instances.front().fingerprint.healthy);
}

TEST_F(PluginSetTest, SickPluginDoesNotDelayOthers) {
  StartWatches();
  const auto hung = Serve("1");
  hung->Hang(FakeCsiPlugin::kAnyCall);
  Register("hung", "1", {kNode, kController});
  EXPECT_TRUE(hung->WaitForCalls("Probe", 1));
  auto waiting = std::async(std::launch::async, [&] { return Front("hung", Clock::now() + milliseconds(300)); });
  Run("well", "2", {kNode, kController});
  EXPECT_EQ(Front("well"), "2");
  EXPECT_OK(plugins_->PickController("well", Soon()));
  EXPECT_THAT(plugins_->List(), SizeIs(2));
  EXPECT_THAT(waiting.get(), HasSubstr("instance '1': not inspected yet"));
}

TEST_F(PluginSetTest, WaitUntilInspectedNamesEachInstance) {
  StartWatches();
  const auto slow = Serve("1");
  slow->Hang("Probe");
  Register("p", "1", {kNode, kController});
  EXPECT_THAT(plugins_->WaitUntilInspected("p", Clock::now() + milliseconds(20)),
              FailsWith(Code::kDeadlineExceeded, "'p'"));
  auto waiting = std::async(std::launch::async, [&] { return plugins_->WaitUntilInspected("p", Soon()); });
  EXPECT_TRUE(slow->WaitForCalls("Probe", 1));
  slow->Release();
  const auto status = waiting.get();
  ASSERT_OK(status);
  EXPECT_EQ(status->nodes.healthy, 1);
  EXPECT_EQ(status->controllers.healthy, 1);
  EXPECT_THAT(plugins_->WaitUntilInspected("other", Soon()), FailsWith(Code::kNotFound, "'other'"));
}

TEST_F(PluginSetTest, WaitUntilInspectedEndsWithTheDeclaration) {
  plugins_->Declare("p", {});
  auto waiting =
      std::async(std::launch::async, [&] { return plugins_->WaitUntilInspected("p", Clock::now() + hours(1)); });
  EXPECT_EQ(waiting.wait_for(milliseconds(20)), std::future_status::timeout);
  plugins_->Undeclare("p");
  EXPECT_EQ(waiting.wait_until(Soon()), std::future_status::ready);
  plugins_->BeginStop();
  EXPECT_THAT(waiting.get(), FailsWith(Code::kNotFound, "'p'"));
}

TEST_F(PluginSetTest, WaitUntilInspectedEndsWithTheLastInstance) {
  Run("p", "1");
  auto waiting =
      std::async(std::launch::async, [&] { return plugins_->WaitUntilInspected("p", Clock::now() + hours(1)); });
  EXPECT_EQ(waiting.wait_for(milliseconds(20)), std::future_status::timeout);
  Deregister("p", "1");
  EXPECT_EQ(waiting.wait_until(Soon()), std::future_status::ready);
  plugins_->BeginStop();
  EXPECT_THAT(waiting.get(), FailsWith(Code::kNotFound, "'p'"));
}

TEST_F(PluginSetTest, WaitForNodeEndsWithTheRegistrationOrTheDeadline) {
  StartWatches();
  EXPECT_THAT(plugins_->WaitForNode("p", Clock::now() + milliseconds(5)),
              FailsWith(Code::kUnavailable, "plugin 'p' has no node instance that is ready: no node"));
  auto waiting = std::async(std::launch::async, [&] { return Front("p"); });
  Run("other", "1");
  Run("p", "2");
  EXPECT_EQ(waiting.get(), "2");
  EXPECT_OK(plugins_->WaitForNode("p", Clock::now()));
}

TEST_F(PluginSetTest, FirstSuccessReleasesWaiters) {
  StartWatches(milliseconds(2));
  const auto plugin = Serve("1");
  plugin->FailAlways("NodeGetInfo", Unavailable("starting"));
  auto waiting = std::async(std::launch::async, [&] { return plugins_->WaitForNode("p", Soon()); });
  Register("p", "1");
  EXPECT_TRUE(plugin->WaitForCalls("NodeGetInfo", 3));
  EXPECT_EQ(waiting.wait_for(milliseconds(0)), std::future_status::timeout);
  plugin->ClearFaults();
  const auto ready = waiting.get();
  ASSERT_OK(ready);
  EXPECT_TRUE(ready->fingerprint.traits.stages);
}

TEST_F(PluginSetTest, SpreadsControllerCallsOverHealthyInstances) {
  StartWatches(milliseconds(2));
  Run("p", "1", {kController});
  const auto second = Run("p", "2", {kController});
  Run("p", "3", {kController});
  for (const char* const id : {"1", "2", "3"}) EXPECT_TRUE(WaitForEvent("health", id, "healthy"));
  const auto picked = [&] {
    std::multiset<std::string> ids;
    for (int i = 0; i < 6; ++i) ids.insert(plugins_->PickController("p", Soon())->instance.instance_id);
    return ids;
  };
  EXPECT_THAT(picked(), ElementsAre("1", "1", "2", "2", "3", "3"));
  second->Die();
  EXPECT_TRUE(WaitForEvent("health", "2", "not healthy"));
  EXPECT_THAT(picked(), ElementsAre("1", "1", "1", "3", "3", "3"));
}

TEST_F(PluginSetTest, ErrorWithoutAHealthyControllerNamesEachInstance) {
  StartWatches(milliseconds(2));
  for (const char* const id : {"1", "2"}) {
    Run("p", id, {kController})->FailAlways("Probe", Internal(std::string("trouble ") + id));
    EXPECT_TRUE(WaitForEvent("health", id, "trouble"));
  }
  EXPECT_THAT(plugins_->PickController("p", Clock::now() + milliseconds(5)),
              FailsWith(Code::kUnavailable,
                        "plugin 'p' has no controller instance that is ready: instance '2': Probe: trouble 2; "
                        "instance '1': Probe: trouble 1"));
}

TEST_F(PluginSetTest, PickControllerWaitsForAHealthyInstance) {
  StartWatches(milliseconds(2));
  const auto plugin = Run("p", "1", {kController});
  plugin->Die();
  auto waiting = std::async(std::launch::async, [&] { return plugins_->PickController("p", Soon()); });
  plugin->Revive();
  EXPECT_OK(waiting.get());
}

TEST_F(PluginSetTest, StopEndsWaitsForAPlugin) {
  StartWatches(milliseconds(2));
  auto node = std::async(std::launch::async, [&] { return plugins_->WaitForNode("p", Soon()).status(); });
  auto controller = std::async(std::launch::async, [&] { return plugins_->PickController("p", Soon()).status(); });
  plugins_->BeginStop();
  EXPECT_EQ(node.get(), Stopping());
  EXPECT_EQ(controller.get(), Stopping());
}

TEST_F(PluginSetTest, CountsPluginsWithBothServicesInBothRoles) {
  plugins_->Declare("p", {kNode, kController});
  plugins_->Declare("q", {});
  StartWatches(milliseconds(2));
  const auto plugin = Run("p", "1", {kNode, kController});
  EXPECT_EQ(Front("p"), "1");
  ASSERT_OK(plugins_->PickController("p", Soon()));
  auto status = plugins_->Find("p");
  ASSERT_OK(status);
  EXPECT_EQ(status->nodes, (RoleCount{1, 1}));
  EXPECT_EQ(status->controllers, (RoleCount{1, 1}));
  EXPECT_TRUE(status->controller_required);
  EXPECT_TRUE(status->schedulable());

  Deregister("p", "1");
  status = plugins_->Find("p");
  ASSERT_OK(status);
  EXPECT_EQ(status->nodes, (RoleCount{0, 1}));
  EXPECT_FALSE(status->schedulable());
  EXPECT_THAT(status->instances, IsEmpty());
  EXPECT_EQ(plugins_->Find("q")->nodes, (RoleCount{0, 1}));
  EXPECT_THAT(plugins_->Find("r"), FailsWith(Code::kNotFound, "'r'"));
}

}  // namespace
}  // namespace mooring::manager
