// The metrics of the real plugin at --metrics-listen, while volumes come and go and its helper is killed. They must
// match docs/operations.md, the dashboard and the alert rules.
#include <netinet/in.h>
#include <sys/socket.h>

#include <regex>

#include "tests/rpc/support/held_tool.h"
#include "tests/rpc/support/helper_processes.h"
#include "tests/rpc/support/rpc_test.h"
#include "tests/support/scrape.h"

namespace mooring::testing {
namespace {

UniqueFd HalfARequestTo(std::uint16_t port) {
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&in), sizeof in), 0);
  EXPECT_EQ(::send(fd.get(), "GET /me", 7, MSG_NOSIGNAL), 7);
  return fd;
}

bool IsConnected(const UniqueFd& fd) {
  char byte = 0;
  return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

class MetricsTest : public RpcTest {
 protected:
  void SetUp() override { Listen("127.0.0.1:0"); }

  void Listen(const std::string& address) {
    plugin_log_ = plugin().options().log_file;
    plugin().options().flags = {"--metrics-listen", address};
    Start();
  }

  // The address in the log of the last start, with the port that the plugin has chosen.
  std::string Address() const {
    static const std::regex kLine("serving metrics address=(\\S+)");
    std::ifstream file(plugin_log_);
    const std::string log{std::istreambuf_iterator<char>(file), {}};
    std::string address;
    for (std::sregex_iterator line(log.begin(), log.end(), kLine), end; line != end; ++line) address = (*line)[1];
    return address;
  }
  Scrape Now() const { return ScrapeOf(Address()); }

  double Mounts(const std::string& kind, const std::string& access = "mount") const {
    return Now()["mooring_plugin_mounts{access=\"" + access + "\",kind=\"" + kind + "\"}"];
  }
  double Calls(const std::string& method, const std::string& code) const {
    return Now()["mooring_plugin_rpcs_total{code=\"" + code + "\",method=\"" + method + "\"}"];
  }

 private:
  std::string plugin_log_;
};

TEST_F(MetricsTest, FiguresFollowTheLifeOfAVolume) {
  const std::string ready = "mooring_plugin_volumes{backend=\"image\",pool=\"default\",state=\"ready\"}";
  const std::string provisioned = "mooring_plugin_provisioned_bytes{backend=\"image\",pool=\"default\"}";
  EXPECT_EQ(Now()["mooring_plugin_ready"], 1);
  EXPECT_EQ(Now()[ready], 0);
  const std::string volume = Created(kSharedMount);
  EXPECT_EQ(Now()[ready], 1);
  EXPECT_EQ(Now()[provisioned], kVolumeBytes);
  ASSERT_OK(driver().Stage(volume, Staging("v"), kSharedMount));
  EXPECT_EQ(Mounts("staged"), 1);
  for (const char* target : {"a", "b"}) {
    ASSERT_OK(driver().Publish(volume, Staging("v"), Target(target), kSharedMount));
  }
  EXPECT_EQ(Mounts("published"), 2);
  EXPECT_EQ(Calls("NodePublishVolume", "OK"), 2);
  EXPECT_EQ(Now()["mooring_plugin_rpc_duration_seconds_count{method=\"NodePublishVolume\"}"], 2);
  EXPECT_EQ(Now()["mooring_plugin_rpcs_in_flight{method=\"NodePublishVolume\"}"], 0);
  EXPECT_THAT(driver().Publish("vol-x", Staging("v"), Target("c"), kSharedMount), FailsWith(Code::kNotFound, "vol-x"));
  EXPECT_EQ(Calls("NodePublishVolume", "NOT_FOUND"), 1);
  for (const char* target : {"a", "b"}) EXPECT_OK(driver().Unpublish(volume, Target(target)));
  EXPECT_OK(driver().Unstage(volume, Staging("v")));
  EXPECT_EQ(Mounts("published"), 0);
  EXPECT_EQ(Mounts("staged"), 0);
  EXPECT_OK(driver().Delete(volume));
  EXPECT_EQ(Now()[ready], 0);
  EXPECT_EQ(Now()[provisioned], 0);
}

TEST_F(MetricsTest, BlockVolumesAndSnapshotsAreCounted) {
  const std::string volume = Created(Block());
  ASSERT_OK(driver().Stage(volume, Staging("block"), Block()));
  ASSERT_OK(driver().Publish(volume, Staging("block"), Target("a", "b"), Block()));
  EXPECT_EQ(Mounts("published", "block"), 1);
  EXPECT_EQ(Mounts("published"), 0);
  EXPECT_OK(driver().Unpublish(volume, Target("a", "b")));
  EXPECT_OK(driver().Unstage(volume, Staging("block")));
  const std::string snapshot = Snapped("s", volume);
  EXPECT_EQ(Now()["mooring_plugin_snapshots{backend=\"image\",pool=\"default\",state=\"ready\"}"], 1);
  EXPECT_OK(driver().DeleteSnapshot(snapshot));
  EXPECT_EQ(Now()["mooring_plugin_snapshots{backend=\"image\",pool=\"default\",state=\"ready\"}"], 0);
}

TEST_F(MetricsTest, PoolFiguresAddUp) {
  const Scrape now = Now();
  const std::string labels = "{backend=\"image\",pool=\"default\"}";
  EXPECT_EQ(now["mooring_plugin_pool_up" + labels], 1);
  EXPECT_GT(now["mooring_plugin_pool_capacity_bytes" + labels], 0);
  EXPECT_EQ(now["mooring_plugin_pool_used_bytes" + labels] + now["mooring_plugin_pool_free_bytes" + labels],
            now["mooring_plugin_pool_capacity_bytes" + labels]);
}

TEST_F(MetricsTest, HelperRestartsAreCounted) {
  EXPECT_EQ(Now()["mooring_plugin_helper_up"], 1);
  EXPECT_EQ(Now()["mooring_plugin_helper_restarts_total"], 0);
  const pid_t spawner = SpawnerOf(plugin().pid());
  ASSERT_EQ(::kill(spawner, SIGSTOP), 0);  // so that no other helper starts yet
  ASSERT_EQ(::kill(HelperOf(plugin().pid()), SIGKILL), 0);
  EXPECT_TRUE(Eventually([this] { return Now()["mooring_plugin_helper_up"] == 0; }));
  EXPECT_EQ(Now()["mooring_plugin_helper_restarts_total"], 0);
  ASSERT_EQ(::kill(spawner, SIGCONT), 0);
  EXPECT_TRUE(Eventually([this] { return Now()["mooring_plugin_helper_restarts_total"] == 1; }));
  EXPECT_EQ(Now()["mooring_plugin_helper_up"], 1);
}

TEST_F(MetricsTest, PreflightFailuresAreShown) {
  const auto after_probe = [this] {
    StatusOf(driver().Send(ProbeRequest())).IgnoreError();
    return Now()["mooring_plugin_preflight_ok"];
  };
  EXPECT_EQ(after_probe(), 1);
  ASSERT_EQ(::chmod(state_dir().c_str(), 0500), 0);
  EXPECT_TRUE(Eventually([&] { return after_probe() == 0; }));
  ASSERT_EQ(::chmod(state_dir().c_str(), 0700), 0);
  EXPECT_TRUE(Eventually([&] { return after_probe() == 1; }));
}

TEST_F(MetricsTest, CallsUnderWayAreCounted) {
  StopPlugin();
  HeldTool mkfs(*this, "mkfs.ext4");
  plugin().options().environment["PATH"] = mkfs.path();
  Start();
  const std::string volume = Created(Mount());
  std::thread stage([&] { EXPECT_OK(driver().Stage(volume, Staging("v"), Mount())); });
  EXPECT_TRUE(Eventually([this] { return Now()["mooring_plugin_rpcs_in_flight{method=\"NodeStageVolume\"}"] == 1; }));
  std::this_thread::sleep_for(milliseconds(600));
  mkfs.Release();
  stage.join();
  EXPECT_EQ(Now()["mooring_plugin_rpcs_in_flight{method=\"NodeStageVolume\"}"], 0);
  EXPECT_EQ(Now()["mooring_plugin_rpc_duration_seconds_bucket{le=\"0.5\",method=\"NodeStageVolume\"}"], 0);
  EXPECT_EQ(Now()["mooring_plugin_rpc_duration_seconds_bucket{le=\"60\",method=\"NodeStageVolume\"}"], 1);
}

TEST_F(MetricsTest, AreServedOnAUnixSocketAlsoAfterAKill) {
  StopPlugin();
  Listen("unix:" + (dir() / "metrics.sock"));
  EXPECT_EQ(Address(), "unix:" + (dir() / "metrics.sock"));
  EXPECT_EQ(Now()["mooring_plugin_ready"], 1);
  Restart(SIGKILL);
  EXPECT_EQ(Now()["mooring_plugin_ready"], 1);
}

TEST_F(MetricsTest, AreNotServedWithoutTheFlag) {
  StopPlugin();
  plugin().options().flags.clear();
  const std::string before = Address();
  Start();
  EXPECT_EQ(Address(), before) << "served once, before";
  EXPECT_EQ(HttpGet(before, "/metrics"), "");
}

TEST_F(MetricsTest, AddressInUseStopsTheStart) {
  const auto [status, log] = RunPlugin({.socket = dir() / "other.sock",
                                        .state_dir = dir() / "other",
                                        .log_file = dir() / "other.log",
                                        .flags = {"--metrics-listen", Address()}});
  EXPECT_EQ(status, 1);
  EXPECT_THAT(log, HasSubstr("mooring-plugin: --metrics-listen " + Address() + ": another process listens"));
}

TEST_F(MetricsTest, InProcessMounterHasTheSameMetrics) {
  StopPlugin();
  plugin().options().flags.push_back("--mounter=in-process");
  Start();
  EXPECT_EQ(Now()["mooring_plugin_helper_up"], 1);
  EXPECT_EQ(Now()["mooring_plugin_helper_restarts_total"], 0);
}

TEST_F(MetricsTest, PluginStaysConfined) {
  EXPECT_EQ(StatusField(plugin().pid(), "Seccomp"), "2");
  EXPECT_EQ(StatusField(plugin().pid(), "CapEff"), "0000000000000000");
  EXPECT_THAT(plugin().Log(), Not(HasSubstr("metrics are not complete")));
}

TEST_F(MetricsTest, ConstantScrapesDoNotDisturbCalls) {
  std::vector<std::thread> scrapers;
  std::atomic<bool> over{false};
  for (int i = 0; i < 4; ++i) {
    scrapers.emplace_back([&, address = Address()] {
      while (!over) EXPECT_THAT(HttpGet(address, "/metrics"), HasSubstr("mooring_plugin_ready 1"));
    });
  }
  const std::string volume = Created(kSharedMount);
  ASSERT_OK(driver().Stage(volume, Staging("v"), kSharedMount));
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(driver().Publish(volume, Staging("v"), Target(std::to_string(i)), kSharedMount));
    ASSERT_OK(driver().Unpublish(volume, Target(std::to_string(i))));
  }
  over = true;
  for (std::thread& scraper : scrapers) scraper.join();
  EXPECT_EQ(Calls("NodePublishVolume", "OK"), 50);
}

// Each client sends half a request and waits.
TEST_F(MetricsTest, HangingClientsDoNotDelayCalls) {
  constexpr auto kPromptly = std::chrono::seconds(2);  // the clients hang for ten
  const auto port = static_cast<std::uint16_t>(std::stoi(Address().substr(Address().rfind(':') + 1)));
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(HalfARequestTo(port));
  const std::string volume = Created(kSharedMount);
  ASSERT_OK(driver().Stage(volume, Staging("v"), kSharedMount));
  const auto start = Clock::now();
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(driver().Publish(volume, Staging("v"), Target(std::to_string(i)), kSharedMount));
    ASSERT_OK(driver().Unpublish(volume, Target(std::to_string(i))));
  }
  EXPECT_EQ(Calls("NodePublishVolume", "OK"), 50) << "scrapes are served, too";
  EXPECT_LT(Clock::now() - start, kPromptly);
  EXPECT_TRUE(IsConnected(clients.back())) << "the clients did not hang";
}

TEST_F(MetricsTest, DashboardAndRulesUseExistingMetrics) {
  Created();
  const Scrape now = Now();
  std::set<std::string> used = NamesInUse("mooring_plugin_");
  EXPECT_THAT(used, Not(IsEmpty()));
  used.merge(NamesInUse("process_"));
  for (const std::string& name : used) {
    const bool series = std::any_of(now.values.begin(), now.values.end(), [&](const auto& value) {
      return value.first == name || value.first.starts_with(name + "{");
    });
    EXPECT_TRUE(series) << name << " is in no scrape";
  }
}

}  // namespace
}  // namespace mooring::testing
