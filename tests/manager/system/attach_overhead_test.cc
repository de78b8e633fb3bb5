// Measures what the manager adds to the three calls of a plugin: socket, claim, journal and bind. Both are measured in
// turn on one volume, so that they find the machine in the same state.
#include <algorithm>
#include <cstdio>
#include <functional>

#include "tests/manager/system/manager_test.h"
#include "tests/rpc/support/driver.h"

namespace mooring::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int kRounds = 50;
constexpr int kFirst = 10;  // run with cold caches

class Times {
 public:
  void Measure(const std::function<void()>& work) {
    const Clock::time_point before = Clock::now();
    work();
    all_.push_back(std::chrono::duration_cast<microseconds>(Clock::now() - before).count());
  }
  long Median() const {
    std::vector<long> sorted(all_.begin() + kFirst, all_.end());
    std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
    return sorted[sorted.size() / 2];
  }

 private:
  std::vector<long> all_;
};

class AttachOverhead : public ManagerTest {
 protected:
  v1::InstanceStatus NodeOf(const std::string& name) {
    v1::InstanceStatus node;
    EXPECT_TRUE(Eventually([&] {
      const auto status = client().Plugin(name);
      if (!status.ok()) return false;
      for (const v1::InstanceStatus& instance : status->instances()) {
        if (!instance.node_id().empty()) node = instance;
      }
      return !node.node_id().empty();
    }));
    return node;
  }
};

TEST_F(AttachOverhead, OverheadIsSmallBesidePluginCalls) {
  RunPlugin(kOurPlugin);
  Create("db", kOurPlugin);
  const v1::InstanceStatus instance = NodeOf(kOurPlugin);
  Driver plugin(instance.instance().socket_path());
  const std::string id = client().Get("db")->volume().external_id();
  const std::string root = dir() / "state/mounts";  // the plugin mounts only here
  const std::string staging = root + "/direct-staging", target = root + "/direct-target", path = dir() / "db";
  fs::create_directory(staging);
  Times direct, managed, direct_off, managed_off;
  for (int round = 0; round < kRounds; ++round) {
    direct.Measure([&] {
      EXPECT_OK(plugin.Attach(id, instance.node_id()));
      EXPECT_OK(plugin.Stage(id, staging));
      EXPECT_OK(plugin.Publish(id, staging, target));
    });
    direct_off.Measure([&] {
      EXPECT_OK(plugin.Unpublish(id, target));
      EXPECT_OK(plugin.Unstage(id, staging));
      EXPECT_OK(plugin.Detach(id, instance.node_id()));
    });
    managed.Measure([&] { EXPECT_OK(client().Attach("db", "web-1", path)); });
    managed_off.Measure([&] { EXPECT_OK(client().Detach("web-1", "db")); });
  }
  const long overhead = managed.Median() - direct.Median();
  std::printf("attach p50: %ld us by the manager, %ld us by the plugin's calls alone: overhead %ld us (goal 1000)\n",
              managed.Median(), direct.Median(), overhead);
  std::printf("detach p50: %ld us by the manager, %ld us by the plugin's calls alone: overhead %ld us\n",
              managed_off.Median(), direct_off.Median(), managed_off.Median() - direct_off.Median());
  RecordProperty("attach_overhead_us", static_cast<int>(overhead));
  EXPECT_LT(managed.Median(), 3 * direct.Median()) << "far above the goal, however busy the machine is";
}

}  // namespace
}  // namespace mooring::testing
