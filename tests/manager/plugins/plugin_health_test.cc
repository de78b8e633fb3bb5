// The set of plugins reports changes of a plugin's health.
#include <condition_variable>
#include <mutex>

#include "tests/manager/plugins/plugin_set_fixture.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {
namespace {

using PluginHealthTest = PluginSetFixture;

// Records the reports of OnHealth.
class HealthReports {
 public:
  explicit HealthReports(PluginSet& plugins) {
    plugins.OnHealth([this](const PluginHealth& health) {
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

TEST_F(PluginHealthTest, SickInstanceIsExpectedAndNotHealthy) {
  StartWatches(milliseconds(2));
  const auto plugin = Run("p", "1");
  EXPECT_EQ(Front("p"), "1");
  plugin->Die();
  EXPECT_TRUE(WaitForEvent("health", "1", "not healthy"));
  EXPECT_EQ(plugins_->Find("p")->nodes, (RoleCount{.healthy = 0, .expected = 1}));
  Run("p", "2");
  EXPECT_TRUE(WaitForEvent("health", "2", "is healthy"));
  EXPECT_EQ(plugins_->Find("p")->nodes, (RoleCount{.healthy = 1, .expected = 1}));
}

TEST_F(PluginHealthTest, InstanceThatWasNeverHealthyIsNotExpected) {
  StartWatches(milliseconds(2));
  Serve("1")->Die();
  Register("p", "1");
  EXPECT_TRUE(WaitForEvent("health", "1", "not healthy"));
  EXPECT_EQ(plugins_->Find("p")->nodes, RoleCount());
}

TEST_F(PluginHealthTest, EachControllerCounts) {
  StartWatches(milliseconds(2));
  Run("p", "1", {kController});
  Run("p", "2", {kController});
  const auto has = [&](int count) {
    return testing::WaitUntil(
        [&] {
          const auto found = plugins_->Find("p");
          return found.ok() && found->controllers == RoleCount{.healthy = count, .expected = count};
        },
        std::chrono::seconds(20));
  };
  EXPECT_TRUE(has(2));
  Deregister("p", "1");
  EXPECT_TRUE(has(1));
}

TEST_F(PluginHealthTest, OnHealthReportsChanges) {
  StartWatches(milliseconds(2));
  HealthReports reports(*plugins_);
  const auto plugin = Run("p", "1");
  EXPECT_THAT(reports.Wait(1), ElementsAre("p well"));
  plugin->Die();
  EXPECT_THAT(reports.Wait(2), ElementsAre("p well", "p sick"));
  plugin->Revive();
  EXPECT_THAT(reports.Wait(3), ElementsAre("p well", "p sick", "p well"));
  Run("p", "2");
  EXPECT_THAT(reports.Wait(4), ElementsAre("p well", "p sick", "p well", "p well"));
  plugins_->Stop();
}

TEST_F(PluginHealthTest, OnHealthIgnoresOtherErrorsOfASickPlugin) {
  StartWatches(milliseconds(2));
  HealthReports reports(*plugins_);
  const auto plugin = Run("p", "1");
  EXPECT_THAT(reports.Wait(1), ElementsAre("p well"));
  plugin->SetReady(false);
  EXPECT_TRUE(WaitForEvent("health", "1", "not ready"));
  plugin->FailAlways("Probe", Internal("out of paper"));
  EXPECT_TRUE(WaitForEvent("health", "1", "out of paper"));
  plugin->SetReady(true);
  plugin->ClearFaults();
  EXPECT_THAT(reports.Wait(3), ElementsAre("p well", "p sick", "p well"));
  plugins_->Stop();
}

TEST_F(PluginHealthTest, InstanceOfAnEarlierManagerIsReportedWithoutAChange) {
  const auto plugin = Run("p", "1");
  OpenSet();  // as the next manager does
  plugin->Hang("Probe");
  StartWatches(milliseconds(2));
  ASSERT_TRUE(plugin->WaitForCalls("Probe", 1));
  HealthReports reports(*plugins_);
  plugin->Release();
  EXPECT_THAT(reports.Wait(1), ElementsAre("p well as before"));
  plugin->Die();
  EXPECT_THAT(reports.Wait(2), ElementsAre("p well as before", "p sick"));
  plugins_->Stop();
}

}  // namespace
}  // namespace mooring::manager
