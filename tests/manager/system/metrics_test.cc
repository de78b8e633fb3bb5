// The metrics of a real manager with a real plugin, compared with docs/operations.md, the dashboard and the rules.
#include <httplib.h>
#include <signal.h>

#include <algorithm>
#include <limits>
#include <regex>
#include <set>

#include "tests/manager/system/manager_test.h"
#include "tests/support/scrape.h"

namespace mooring::testing {
namespace {

class ManagerMetrics : public ManagerTest {
 protected:
  void SetUp() override {
    process().options().flags = {"--metrics-listen", "127.0.0.1:0", "--docker-socket", dir() / "docker.sock"};
    Start();
  }

  // The address in the log of the last start.
  std::string Address() {
    static const std::regex kLine("serving metrics address=(\\S+)");
    const std::string log = process().Log();
    std::string address;
    for (std::sregex_iterator line(log.begin(), log.end(), kLine), end; line != end; ++line) address = (*line)[1];
    return address;
  }
  Scrape Now() { return ScrapeOf(Address()); }

  void AskDocker() {
    httplib::Client docker(dir() / "docker.sock");
    docker.set_address_family(AF_UNIX);
    EXPECT_TRUE(docker.Post("/VolumeDriver.List", "{}", ""));
    EXPECT_TRUE(docker.Post("/VolumeDriver.Get", R"({"Name": "nobody"})", ""));
  }

  bool IsUp() { return Now()["mooring_manager_plugin_up{plugin=\"mooring.csi\"}"] == 1; }
};

TEST_F(ManagerMetrics, FiguresFollowTheLifeOfAVolume) {
  const std::string taken = "mooring_manager_claims{mode=\"write\",state=\"taken\"}";
  const std::string ready = "mooring_manager_volumes{plugin=\"mooring.csi\",state=\"ready\"}";
  const seconds patience(IsOverEtcd() ? 10 : 0);  // a restore waits there until the claims are checked
  EXPECT_TRUE(Eventually([this] { return Now()["mooring_manager_restore_seconds"] >= 0; }, patience));
  RunPlugin(kOurPlugin);
  EXPECT_TRUE(Eventually([this] { return IsUp(); }));
  Create("db", kOurPlugin);
  EXPECT_EQ(Now()[ready], 1);
  EXPECT_EQ(Now()["mooring_manager_volume_bytes{plugin=\"mooring.csi\"}"], 32 << 20);
  EXPECT_EQ(Now()[taken], 0);
  Attached("db");
  const Scrape now = Now();
  EXPECT_EQ(now[taken], 1);
  EXPECT_EQ(now["mooring_manager_attachments{phase=\"mounted\"}"], 1);
  EXPECT_EQ(now["mooring_manager_attachments_stuck{phase=\"mounted\"}"], 0);
  EXPECT_EQ(now["mooring_manager_api_calls_total{code=\"OK\",method=\"Attach\"}"], 1);
  EXPECT_EQ(now["mooring_manager_api_call_duration_seconds_count{method=\"Attach\"}"], 1);
  EXPECT_EQ(now["mooring_manager_plugin_calls_total{code=\"OK\",method=\"NodePublishVolume\",plugin=\"mooring.csi\"}"],
            1);
  EXPECT_GT(now["mooring_manager_state_transactions_total{code=\"OK\"}"], 0);
  EXPECT_GT(now["mooring_manager_state_transaction_duration_seconds_count"], 0);
  EXPECT_OK(client().Detach("web-1", "db"));
  EXPECT_EQ(Now()[taken], 0);
  EXPECT_EQ(Now()["mooring_manager_attachments{phase=\"mounted\"}"], 0);
  EXPECT_OK(client().Delete("db"));
  EXPECT_EQ(Now()[ready], -1) << "the plugin has none any more";
}

// So that Prometheus sees the first error as an increase.
TEST_F(ManagerMetrics, ErrorCountersStartAtZero) {
  EXPECT_EQ(Now()["mooring_manager_state_transactions_total{code=\"RESOURCE_EXHAUSTED\"}"], 0);
  RunPlugin(kOurPlugin);
  EXPECT_EQ(
      Now()["mooring_manager_plugin_calls_total{code=\"INTERNAL\",method=\"NodeStageVolume\",plugin=\"mooring.csi\"}"],
      0);
}

TEST_F(ManagerMetrics, TellLeaseAndHosts) {
  EXPECT_TRUE(Eventually([this] { return Now()["mooring_manager_lease_valid_seconds"] > 0; }));
  const Scrape now = Now();
  EXPECT_EQ(now["mooring_manager_hosts{state=\"alive\"}"], 1);
  EXPECT_EQ(now["mooring_manager_hosts{state=\"unreachable\"}"], 0);
  const double valid = now["mooring_manager_lease_valid_seconds"];
  if (IsOverEtcd()) {
    EXPECT_THAT(valid, AllOf(::testing::Gt(0), ::testing::Lt(6)));
  } else {
    EXPECT_EQ(valid, std::numeric_limits<double>::infinity());
  }
  EXPECT_GT(now["mooring_manager_lease_age_seconds"], 0);
}

TEST_F(ManagerMetrics, CountsRestartOfKilledPlugin) {
  RunPlugin(kOurPlugin);
  EXPECT_TRUE(Eventually([this] { return IsUp(); }));
  EXPECT_EQ(Now()["mooring_manager_plugin_restarts_total{plugin=\"mooring.csi\"}"], 0);
  EXPECT_EQ(Now()["mooring_manager_plugin_instances_expected{plugin=\"mooring.csi\",role=\"node\"}"], 1);
  ASSERT_EQ(::kill(PluginPid(kOurPlugin), SIGKILL), 0);
  EXPECT_TRUE(Eventually(
      [this] { return Now()["mooring_manager_plugin_instances_healthy{plugin=\"mooring.csi\",role=\"node\"}"] == 0; }));
  EXPECT_TRUE(Eventually([this] { return IsUp(); }));
  EXPECT_EQ(Now()["mooring_manager_plugin_restarts_total{plugin=\"mooring.csi\"}"], 1);
}

TEST_F(ManagerMetrics, FailedDetachCountsAsStuck) {
  RunPlugin(kStrictPlugin);
  Create("db", kStrictPlugin);
  Attached("db");
  Inject("NodeUnpublishVolume", "fail INTERNAL out of paper");
  EXPECT_FALSE(client().Detach("web-1", "db").ok());
  const std::string stuck = "mooring_manager_attachments_stuck{phase=\"unmounting\"}";
  EXPECT_TRUE(Eventually([&] { return Now()[stuck] == 1; }));
  EXPECT_EQ(Now()["mooring_manager_attachments{phase=\"unmounting\"}"], 1);
  const std::string waiting =
      fmt::format("mooring_manager_work_waiting{{kind=\"attachment\",plugin=\"{}\"}}", kStrictPlugin);
  EXPECT_TRUE(Eventually([&] { return Now()[waiting] == 1; }));
  const auto info = client().Ask(&v1::Manager::Stub::GetManagerInfo, v1::GetManagerInfoRequest());
  ASSERT_OK(info);
  ASSERT_EQ(info->owed_size(), 1);
  EXPECT_EQ(info->owed(0).what(), "'db' of 'web-1'");
  EXPECT_THAT(info->owed(0).problem(), HasSubstr("out of paper"));
  EndFault("NodeUnpublishVolume");
  EXPECT_TRUE(Eventually([&] { return Now()[stuck] == 0; }));
  EXPECT_TRUE(Eventually([&] { return Now()[waiting] == 0; }));
}

TEST_F(ManagerMetrics, CountsDockerRequestsByOutcome) {
  AskDocker();
  const Scrape now = Now();
  EXPECT_EQ(now["mooring_manager_docker_requests_total{code=\"OK\",method=\"VolumeDriver.List\"}"], 1);
  EXPECT_EQ(now["mooring_manager_docker_requests_total{code=\"NOT_FOUND\",method=\"VolumeDriver.Get\"}"], 1);
}

TEST_F(ManagerMetrics, ServesOnUnixSocketAlsoAfterKill) {
  process().options().flags = {"--metrics-listen", "unix:" + (dir() / "metrics.sock")};
  for (const int signal : {SIGTERM, SIGKILL}) {
    Restart(signal);
    EXPECT_EQ(Address(), "unix:" + (dir() / "metrics.sock"));
    EXPECT_EQ(Now()["mooring_manager_state_up"], 1);
  }
}

TEST_F(ManagerMetrics, NoMetricsWithoutFlag) {
  const std::string before = Address();
  process().options().flags.clear();
  Restart(SIGTERM);
  EXPECT_EQ(Address(), before) << "served once, before";
  EXPECT_EQ(HttpGet(before, "/metrics"), "");
}

// Makes every metric appear in one scrape.
class ManagerMetricsPage : public ManagerMetrics {
 protected:
  void SetUp() override {
    ManagerMetrics::SetUp();
    RunPlugin(kOurPlugin);
    Create("db", kOurPlugin);
    AskDocker();
  }
};

TEST_F(ManagerMetricsPage, OperationsTableMatchesScrape) {
  EXPECT_THAT(Now().families, ::testing::ContainerEq(FamiliesOfThePage({"mooring_manager_", "process_"})));
}

TEST_F(ManagerMetricsPage, DashboardAndRulesUseExistingMetrics) {
  const Scrape now = Now();
  const std::set<std::string> used = NamesInUse("mooring_manager_");
  EXPECT_THAT(used, Not(IsEmpty()));
  for (const std::string& name : used) {
    const bool series = std::any_of(now.values.begin(), now.values.end(), [&](const auto& value) {
      return value.first == name || value.first.starts_with(name + "{");
    });
    EXPECT_TRUE(series) << name << " is in no scrape";
  }
}

}  // namespace
}  // namespace mooring::testing
