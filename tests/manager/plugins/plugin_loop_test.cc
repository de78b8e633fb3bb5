// The plugin loop: it follows the registry, reports health, and picks instances for calls.
#include "manager/plugins/plugin_loop.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "manager/state/sqlite_state.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/manager/plugins/watch_threads.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FailsWith;
using ::mooring::testing::FakeCsiFeatures;
using ::mooring::testing::FakeCsiPlugin;
using ::mooring::testing::FakeSockets;
using ::mooring::testing::TempDir;
using ::mooring::testing::WatchOnce;
using ::mooring::testing::WatchThreads;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr PluginType kNode = PluginType::kNode;
constexpr PluginType kController = PluginType::kController;

Clock::time_point Soon() { return Clock::now() + seconds(20); }

std::string Socket(const std::string& id) { return "/run/" + id + "/csi.sock"; }

class PluginLoopTest : public ::testing::Test {
 protected:
  PluginLoopTest() {
    state_ = OpenSqliteState(dir_ / "state").value();
    registry_ = Registry::Open(*state_, "host-1").value();
  }

  // The loop resyncs on request, or often.
  void StartLoop(Clock::duration interval = hours(1), Clock::duration resync = hours(1),
                 Clock::duration last_inspection = milliseconds(50)) {
    const PluginLoop::Settings settings = {.resync = resync, .last_inspection = last_inspection};
    loop_ = std::make_unique<PluginLoop>(
        *registry_, events_,
        [this](const std::string& path, const std::string& plugin) {
          ++connected_;
          return sockets_.connector()(path, plugin);
        },
        [this] { return expected_; }, settings);
    watching_.probe_interval = watching_.describe_interval = interval;
    watches_ = std::make_unique<WatchThreads>(*registry_, *loop_, sockets_.connector(), watching_);
  }

  static InstanceInfo Instance(const std::string& name, const std::string& id, PluginType type) {
    InstanceInfo instance;
    instance.type = type;
    instance.name = name;
    instance.instance_id = id;
    instance.socket_path = Socket(id);
    return instance;
  }

  std::shared_ptr<FakeCsiPlugin> Serve(const std::string& id, FakeCsiFeatures features = {}) {
    auto plugin = std::make_shared<FakeCsiPlugin>(std::move(features));
    sockets_.Serve(Socket(id), plugin);
    return plugin;
  }
  std::shared_ptr<FakeCsiPlugin> Run(const std::string& name, const std::string& id,
                                     std::vector<PluginType> types = {kNode}) {
    auto plugin = Serve(id);
    for (const PluginType type : types) EXPECT_OK(registry_->Register(Instance(name, id, type)));
    return plugin;
  }

  // The id of the instance that node calls go to, or the error.
  std::string Front(const std::string& name, Clock::time_point until = Soon()) {
    const auto ready = loop_->WaitForNode(name, until);
    return ready.ok() ? ready->instance.instance_id : "none: " + Message(ready.status());
  }

  // Waits for the event instead of polling.
  bool WaitForEvent(const std::string& kind, const std::string& instance, const std::string& piece = "",
                    Clock::time_point until = Soon()) {
    std::uint64_t from = 1;
    while (Clock::now() < until) {
      const auto events = events_.Next(from, until);
      if (!events.ok()) return false;
      for (const Event& event : *events) {
        from = event.number + 1;
        if (event.kind == kind && event.instance == instance && event.text.find(piece) != std::string::npos)
          return true;
      }
    }
    return false;
  }

  TempDir dir_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Registry> registry_;
  FakeSockets sockets_;
  Events events_;
  std::vector<PluginLoop::Expected> expected_;
  std::atomic<int> connected_ = 0;
  PluginWatch::Settings watching_ = WatchOnce();
  std::unique_ptr<PluginLoop> loop_;
  std::unique_ptr<WatchThreads> watches_;
};

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

TEST_F(PluginLoopTest, ResyncsPeriodically) {
  StartLoop(hours(1), milliseconds(5));
  Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  EXPECT_EQ(connected_, 1);
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
              FailsWith(absl::StatusCode::kDeadlineExceeded, "'p'"));
  auto waiting = std::async(std::launch::async, [&] { return loop_->WaitUntilInspected("p", Soon()); });
  EXPECT_TRUE(slow->WaitForCalls("Probe", 1));
  slow->Release();
  const auto status = waiting.get();
  ASSERT_OK(status);
  EXPECT_EQ(status->nodes.healthy, 1);
  EXPECT_EQ(status->controllers.healthy, 1);
  EXPECT_THAT(loop_->WaitUntilInspected("other", Soon()), FailsWith(absl::StatusCode::kNotFound, "'other'"));
}

TEST_F(PluginLoopTest, WaitForNodeEndsWithTheRegistrationOrTheDeadline) {
  StartLoop();
  EXPECT_THAT(loop_->WaitForNode("p", Clock::now() + milliseconds(5)),
              FailsWith(absl::StatusCode::kUnavailable, "'p'"));
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

TEST_F(PluginLoopTest, RegistrationWakesOnlyItsWaiters) {
  StartLoop();
  auto waiting = std::async(std::launch::async, [&] { return Front("p"); });
  Run("p", "1");
  EXPECT_EQ(waiting.get(), "1");
  EXPECT_THAT(loop_->WaitForNode("never", Clock::now() + milliseconds(5)),
              FailsWith(absl::StatusCode::kUnavailable, "plugin 'never' has no node instance that is ready: no node"));
}

TEST_F(PluginLoopTest, HealthEventsHaveThePluginsMessage) {
  StartLoop(milliseconds(2));
  const auto plugin = Run("p", "1");
  EXPECT_TRUE(WaitForEvent("registered", "1"));
  EXPECT_TRUE(WaitForEvent("health", "1", "node instance is healthy: 'fake.csi' '1.0'"));
  plugin->FailAlways("Probe", Internal("out of paper"));
  EXPECT_TRUE(WaitForEvent("health", "1", "Probe: out of paper"));
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
              FailsWith(absl::StatusCode::kUnavailable,
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
  EXPECT_THAT(loop_->Find("r"), FailsWith(absl::StatusCode::kNotFound, "'r'"));
}

TEST_F(PluginLoopTest, SickInstanceIsExpectedAndNotHealthy) {
  StartLoop(milliseconds(2));
  const auto plugin = Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  plugin->Die();
  EXPECT_TRUE(WaitForEvent("health", "1", "not healthy"));
  EXPECT_EQ(loop_->Find("p")->nodes, (RoleCount{.healthy = 0, .expected = 1}));
}

TEST_F(PluginLoopTest, InstanceThatWasNeverHealthyIsNotExpected) {
  StartLoop(milliseconds(2));
  Serve("1")->Die();
  ASSERT_OK(registry_->Register(Instance("p", "1", kNode)));
  EXPECT_TRUE(WaitForEvent("health", "1", "not healthy"));
  EXPECT_EQ(loop_->Find("p")->nodes, RoleCount());
}

// Records the reports of OnHealth.
class HealthReports {
 public:
  explicit HealthReports(PluginLoop& loop) {
    loop.OnHealth([this](const PluginHealth& health) {
      const std::lock_guard<std::mutex> lock(mutex_);
      all_.push_back(std::string(health.plugin) + (health.healthy ? " well" : " sick") +
                     (health.changed ? "" : " as before"));
      changed_.notify_all();
    });
  }
  std::vector<std::string> Wait(std::size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_until(lock, Soon(), [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

TEST_F(PluginLoopTest, OnHealthReportsChanges) {
  StartLoop(milliseconds(2));
  HealthReports reports(*loop_);
  const auto plugin = Run("p", "1");
  EXPECT_THAT(reports.Wait(1), ElementsAre("p well"));
  plugin->Die();
  EXPECT_THAT(reports.Wait(2), ElementsAre("p well", "p sick"));
  plugin->Revive();
  EXPECT_THAT(reports.Wait(3), ElementsAre("p well", "p sick", "p well"));
  Run("p", "2");
  EXPECT_THAT(reports.Wait(4), ElementsAre("p well", "p sick", "p well", "p well"));
  loop_->Stop();
}

TEST_F(PluginLoopTest, OnHealthIgnoresOtherErrorsOfASickPlugin) {
  StartLoop(milliseconds(2));
  HealthReports reports(*loop_);
  const auto plugin = Run("p", "1");
  EXPECT_THAT(reports.Wait(1), ElementsAre("p well"));
  plugin->SetReady(false);
  EXPECT_TRUE(WaitForEvent("health", "1", "not ready"));
  plugin->FailAlways("Probe", Internal("out of paper"));
  EXPECT_TRUE(WaitForEvent("health", "1", "out of paper"));
  plugin->SetReady(true);
  plugin->ClearFaults();
  EXPECT_THAT(reports.Wait(3), ElementsAre("p well", "p sick", "p well"));
  loop_->Stop();
}

TEST_F(PluginLoopTest, InstanceOfAnEarlierManagerIsReportedWithoutAChange) {
  const auto plugin = Run("p", "1");
  plugin->Hang("Probe");
  StartLoop(milliseconds(2));
  ASSERT_TRUE(plugin->WaitForCalls("Probe", 1));
  HealthReports reports(*loop_);
  plugin->Release();
  EXPECT_THAT(reports.Wait(1), ElementsAre("p well as before"));
  plugin->Die();
  EXPECT_THAT(reports.Wait(2), ElementsAre("p well as before", "p sick"));
  loop_->Stop();
}

}  // namespace
}  // namespace mooring::manager
