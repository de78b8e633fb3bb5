// The plugin loop: it follows the registry, and picks instances for calls.
#include "manager/plugins/plugin_loop.h"

#include <set>

#include "tests/manager/plugins/plugin_loop_fixture.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FakeCsiPlugin;
using ::testing::Field;

using PluginLoopTest = PluginLoopFixture;

TEST_F(PluginLoopTest, StartsWithTheRegisteredInstances) {
  Run("p", "1", {kNode, kController});
  StartLoop();
  EXPECT_EQ(Front("p"), "1");
  EXPECT_OK(loop_->PickController("p", Soon()));
}

TEST_F(PluginLoopTest, FollowsRegistryEvents) {
  StartLoop();
  Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  Run("q", "2", {kController});
  EXPECT_OK(loop_->PickController("q", Soon()));
}

TEST_F(PluginLoopTest, ResyncStopsDeregisteredInstances) {
  StartLoop();
  const auto plugin = Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  ASSERT_OK(registry_->Deregister(kNode, "p", "1"));
  EXPECT_TRUE(WaitForEvent("health", "1", "it was stopped"));
  EXPECT_THAT(Front("p", Clock::now()), HasSubstr("plugin 'p' has no node instance"));
}

TEST_F(PluginLoopTest, StartsAnInstanceOnce) {
  StartLoop(hours(1), milliseconds(2));
  Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  Run("p", "1");
  Run("q", "2");
  EXPECT_EQ(Front("q"), "2");
  EXPECT_EQ(connected_, 2);
}

TEST_F(PluginLoopTest, NewInstanceReplacesTheOldOne) {
  StartLoop();
  const auto old_one = Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  Run("p", "2");
  EXPECT_TRUE(WaitForEvent("health", "2", "healthy"));
  EXPECT_EQ(Front("p"), "2");
  EXPECT_TRUE(WaitForEvent("health", "1", "it was stopped"));
  const auto status = loop_->Find("p");
  ASSERT_OK(status);
  EXPECT_EQ(status->nodes, (RoleCount{1, 1}));
}

TEST_F(PluginLoopTest, NewInstanceReplacesAHangingOne) {
  watching_.probe_time = milliseconds(20);
  StartLoop();
  const auto hung = Run("p", "1");
  hung->Hang(FakeCsiPlugin::kAnyCall);
  EXPECT_TRUE(hung->WaitForCalls("Probe", 1));
  Run("p", "2");
  EXPECT_EQ(Front("p"), "2");
}

TEST_F(PluginLoopTest, StoppingAHangingInstanceDelaysNoOther) {
  constexpr seconds kLastLook(20);
  StartLoop(hours(1), hours(1), kLastLook);
  const auto hung = Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  hung->Hang(FakeCsiPlugin::kAnyCall);
  const Clock::time_point before = Clock::now();
  Run("p", "2");
  EXPECT_TRUE(WaitForEvent("health", "2", "healthy"));
  Run("q", "3");
  EXPECT_EQ(Front("q"), "3");
  EXPECT_LT(Clock::now() - before, kLastLook / 2);
  hung->Release();
  loop_->Stop();
  EXPECT_TRUE(WaitForEvent("health", "1", "it was stopped"));
}

TEST_F(PluginLoopTest, PreviousInstanceReturnsWhenTheFrontIsDeregistered) {
  StartLoop();
  Run("p", "1");
  Run("p", "2");
  EXPECT_TRUE(WaitForEvent("health", "2", "healthy"));
  EXPECT_EQ(Front("p"), "2");
  ASSERT_OK(registry_->Deregister(kNode, "p", "2"));
  EXPECT_TRUE(WaitForEvent("health", "2", "it was stopped"));
  EXPECT_EQ(Front("p"), "1");
}

TEST_F(PluginLoopTest, DeregisteringAnInstanceLeavesOthersRunning) {
  StartLoop();
  Run("p", "1");
  Run("p", "2");
  EXPECT_TRUE(WaitForEvent("health", "2", "healthy"));
  const int connected = connected_;
  ASSERT_OK(registry_->Deregister(kNode, "p", "1"));
  ASSERT_OK(registry_->Deregister(kNode, "p", "never was"));
  EXPECT_TRUE(WaitForEvent("deregistered", "1"));
  EXPECT_EQ(Front("p"), "2");
  EXPECT_EQ(connected_, connected);
  EXPECT_TRUE(loop_->Find("p")->instances.front().fingerprint.healthy);
}

TEST_F(PluginLoopTest, ShutdownStopsInstancesInParallel) {
  constexpr milliseconds kLastLook(200);
  StartLoop(hours(1), hours(1), kLastLook);
  std::vector<std::shared_ptr<FakeCsiPlugin>> plugins;
  for (int i = 0; i < 20; ++i) {
    const std::string id = std::to_string(i);
    plugins.push_back(Run("p" + id, id));
    EXPECT_EQ(Front("p" + id), id);
    plugins.back()->Hang(FakeCsiPlugin::kAnyCall);
  }
  auto waiting = std::async(std::launch::async, [&] { return Front("never", Soon()); });
  const Clock::time_point before = Clock::now();
  loop_->Stop();
  EXPECT_LT(Clock::now() - before, 15 * kLastLook);  // in parallel, not one after the other
  EXPECT_THAT(waiting.get(), HasSubstr("stopping"));
  EXPECT_THAT(loop_->Find("p3")->instances,
              ElementsAre(Field(&InstanceStatus::fingerprint, Field(&Fingerprint::healthy, false))));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(WaitForEvent("health", std::to_string(i), "it was stopped"));
}

TEST_F(PluginLoopTest, ShutdownInspectsAHealthyInstanceBesideAHungOne) {
  StartLoop(hours(1), hours(1), milliseconds(200));
  const auto hung = Run("a", "1");
  const auto healthy = Run("b", "2");
  EXPECT_EQ(Front("a"), "1");
  EXPECT_EQ(Front("b"), "2");
  hung->Hang(FakeCsiPlugin::kAnyCall);
  loop_->Stop();
  EXPECT_TRUE(WaitForEvent("health", "1", "it was stopped; before:"));
  EXPECT_TRUE(WaitForEvent("health", "2", "not healthy: it was stopped"));
  EXPECT_FALSE(WaitForEvent("health", "2", "before:", Clock::now() + milliseconds(50))) << "it did not get its second";
}

TEST_F(PluginLoopTest, SickPluginDoesNotDelayOthers) {
  StartLoop();
  const auto hung = Serve("1");
  hung->Hang(FakeCsiPlugin::kAnyCall);
  for (const PluginType type : {kNode, kController}) ASSERT_OK(registry_->Register(Instance("hung", "1", type)));
  EXPECT_TRUE(hung->WaitForCalls("Probe", 1));
  auto waiting = std::async(std::launch::async, [&] { return Front("hung", Clock::now() + milliseconds(300)); });
  Run("well", "2", {kNode, kController});
  EXPECT_EQ(Front("well"), "2");
  EXPECT_OK(loop_->PickController("well", Soon()));
  EXPECT_THAT(loop_->List(), SizeIs(2));
  EXPECT_THAT(waiting.get(), HasSubstr("instance '1': not inspected yet"));
}

TEST_F(PluginLoopTest, WaitUntilInspectedNamesEachInstance) {
  StartLoop();
  const auto slow = Serve("1");
  slow->Hang("Probe");
  for (const PluginType type : {kNode, kController}) ASSERT_OK(registry_->Register(Instance("p", "1", type)));
  EXPECT_THAT(loop_->WaitUntilInspected("p", Clock::now() + milliseconds(20)),
              FailsWith(Code::kDeadlineExceeded, "'p'"));
  auto waiting = std::async(std::launch::async, [&] { return loop_->WaitUntilInspected("p", Soon()); });
  EXPECT_TRUE(slow->WaitForCalls("Probe", 1));
  slow->Release();
  const auto status = waiting.get();
  ASSERT_OK(status);
  EXPECT_EQ(status->nodes.healthy, 1);
  EXPECT_EQ(status->controllers.healthy, 1);
  EXPECT_THAT(loop_->WaitUntilInspected("other", Soon()), FailsWith(Code::kNotFound, "'other'"));
}

TEST_F(PluginLoopTest, WaitForNodeEndsWithTheRegistrationOrTheDeadline) {
  StartLoop();
  EXPECT_THAT(loop_->WaitForNode("p", Clock::now() + milliseconds(5)),
              FailsWith(Code::kUnavailable, "plugin 'p' has no node instance that is ready: no node"));
  auto waiting = std::async(std::launch::async, [&] { return Front("p"); });
  Run("other", "1");
  Run("p", "2");
  EXPECT_EQ(waiting.get(), "2");
  EXPECT_OK(loop_->WaitForNode("p", Clock::now()));
}

TEST_F(PluginLoopTest, FirstSuccessReleasesWaiters) {
  StartLoop(milliseconds(2));
  const auto plugin = Serve("1");
  plugin->FailAlways("NodeGetInfo", Unavailable("starting"));
  auto waiting = std::async(std::launch::async, [&] { return loop_->WaitForNode("p", Soon()); });
  ASSERT_OK(registry_->Register(Instance("p", "1", kNode)));
  EXPECT_TRUE(plugin->WaitForCalls("NodeGetInfo", 3));
  EXPECT_EQ(waiting.wait_for(milliseconds(0)), std::future_status::timeout);
  plugin->ClearFaults();
  const auto ready = waiting.get();
  ASSERT_OK(ready);
  EXPECT_TRUE(ready->fingerprint.traits.stages);
}

TEST_F(PluginLoopTest, SpreadsControllerCallsOverHealthyInstances) {
  StartLoop(milliseconds(2));
  Run("p", "1", {kController});
  const auto second = Run("p", "2", {kController});
  Run("p", "3", {kController});
  for (const char* const id : {"1", "2", "3"}) EXPECT_TRUE(WaitForEvent("health", id, "healthy"));
  const auto picked = [&] {
    std::multiset<std::string> ids;
    for (int i = 0; i < 6; ++i) ids.insert(loop_->PickController("p", Soon())->instance.instance_id);
    return ids;
  };
  EXPECT_THAT(picked(), ElementsAre("1", "1", "2", "2", "3", "3"));
  second->Die();
  EXPECT_TRUE(WaitForEvent("health", "2", "not healthy"));
  EXPECT_THAT(picked(), ElementsAre("1", "1", "1", "3", "3", "3"));
}

TEST_F(PluginLoopTest, ErrorWithoutAHealthyControllerNamesEachInstance) {
  StartLoop(milliseconds(2));
  for (const char* const id : {"1", "2"}) {
    Run("p", id, {kController})->FailAlways("Probe", Internal(std::string("trouble ") + id));
    EXPECT_TRUE(WaitForEvent("health", id, "trouble"));
  }
  EXPECT_THAT(loop_->PickController("p", Clock::now() + milliseconds(5)),
              FailsWith(Code::kUnavailable,
                        "plugin 'p' has no controller instance that is ready: instance '2': Probe: trouble 2; "
                        "instance '1': Probe: trouble 1"));
}

TEST_F(PluginLoopTest, PickControllerWaitsForAHealthyInstance) {
  StartLoop(milliseconds(2));
  const auto plugin = Run("p", "1", {kController});
  plugin->Die();
  auto waiting = std::async(std::launch::async, [&] { return loop_->PickController("p", Soon()); });
  plugin->Revive();
  EXPECT_OK(waiting.get());
}

TEST_F(PluginLoopTest, StopEndsWaitsForAPlugin) {
  StartLoop(milliseconds(2));
  auto node = std::async(std::launch::async, [&] { return loop_->WaitForNode("p", Soon()).status(); });
  auto controller = std::async(std::launch::async, [&] { return loop_->PickController("p", Soon()).status(); });
  loop_->BeginStop();
  EXPECT_EQ(node.get(), Stopping());
  EXPECT_EQ(controller.get(), Stopping());
}

TEST_F(PluginLoopTest, CountsPluginsWithBothServicesInBothRoles) {
  expected_ = {{.plugin = "p", .nodes = 1, .controllers = 1}, {.plugin = "q", .nodes = 1, .controllers = 0}};
  StartLoop(milliseconds(2));
  const auto plugin = Run("p", "1", {kNode, kController});
  EXPECT_EQ(Front("p"), "1");
  ASSERT_OK(loop_->PickController("p", Soon()));
  auto status = loop_->Find("p");
  ASSERT_OK(status);
  EXPECT_EQ(status->nodes, (RoleCount{1, 1}));
  EXPECT_EQ(status->controllers, (RoleCount{1, 1}));
  EXPECT_TRUE(status->controller_required);
  EXPECT_TRUE(status->schedulable());

  for (const PluginType type : {kNode, kController}) ASSERT_OK(registry_->Deregister(type, "p", "1"));
  status = loop_->Find("p");
  ASSERT_OK(status);
  EXPECT_EQ(status->nodes, (RoleCount{0, 1}));
  EXPECT_FALSE(status->schedulable());
  EXPECT_THAT(status->instances, IsEmpty());
  EXPECT_EQ(loop_->Find("q")->nodes, (RoleCount{0, 1}));
  EXPECT_THAT(loop_->Find("r"), FailsWith(Code::kNotFound, "'r'"));
}

}  // namespace
}  // namespace mooring::manager
