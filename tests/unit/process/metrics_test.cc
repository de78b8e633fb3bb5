// The metrics of calls, and the addresses that --metrics-listen accepts.
#include "metrics/call_metrics.h"
#include "metrics/exposition.h"
#include "metrics/listen_address.h"
#include "tests/support/scrape.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

using metrics::CallFamilies;
using metrics::CallMetrics;
using metrics::Exposition;
using metrics::ListenAddress;
using metrics::ParseListenAddress;
using std::chrono::microseconds;

class CallMetricsTest : public ::testing::Test {
 protected:
  Scrape Now() const { return ParseScrape(exposition_.Text()); }

  Exposition exposition_{[] { return std::vector<prometheus::MetricFamily>(); }};
  CallFamilies families_{exposition_.registry(), "mooring_plugin_rpc", "Calls"};
  CallMetrics calls_{families_};
};

TEST_F(CallMetricsTest, ACallIsUnderWayAndThenCountedOnceByItsCode) {
  calls_.Begin("Probe");
  EXPECT_EQ(Now()["mooring_plugin_rpcs_in_flight{method=\"Probe\"}"], 1);
  EXPECT_EQ(Now()["mooring_plugin_rpcs_total{code=\"OK\",method=\"Probe\"}"], -1);
  calls_.End("Probe", StatusCode::kOk, microseconds(300));
  calls_.Begin("Probe");
  calls_.End("Probe", StatusCode::kNotFound, microseconds(700));
  const Scrape scrape = Now();
  EXPECT_EQ(scrape["mooring_plugin_rpcs_in_flight{method=\"Probe\"}"], 0);
  EXPECT_EQ(scrape["mooring_plugin_rpcs_total{code=\"OK\",method=\"Probe\"}"], 1);
  EXPECT_EQ(scrape["mooring_plugin_rpcs_total{code=\"NOT_FOUND\",method=\"Probe\"}"], 1);
  EXPECT_EQ(scrape["mooring_plugin_rpc_duration_seconds_count{method=\"Probe\"}"], 2);
  EXPECT_NEAR(scrape["mooring_plugin_rpc_duration_seconds_sum{method=\"Probe\"}"], 0.001, 1e-9);
  EXPECT_EQ(scrape["mooring_plugin_rpc_duration_seconds_bucket{le=\"0.00025\",method=\"Probe\"}"], 0);
  EXPECT_EQ(scrape["mooring_plugin_rpc_duration_seconds_bucket{le=\"0.0005\",method=\"Probe\"}"], 1);
  EXPECT_EQ(scrape["mooring_plugin_rpc_duration_seconds_bucket{le=\"+Inf\",method=\"Probe\"}"], 2);
}

TEST_F(CallMetricsTest, AStreamThatFollowsHasNoDuration) {
  calls_.Begin("Watch");
  calls_.End("Watch", StatusCode::kCancelled, std::nullopt);
  const Scrape scrape = Now();
  EXPECT_EQ(scrape["mooring_plugin_rpcs_total{code=\"CANCELLED\",method=\"Watch\"}"], 1);
  EXPECT_EQ(scrape["mooring_plugin_rpc_duration_seconds_count{method=\"Watch\"}"], -1);
}

// increase() of Prometheus ignores the first value of a counter, so the alerts need a 0 before it.
TEST_F(CallMetricsTest, NamedMethodsHaveErrorCountersBeforeTheFirstCall) {
  CallMetrics calls(families_, {{"plugin", "a"}}, {"Probe"});
  const auto of = [this](const std::string& code) {
    return Now()["mooring_plugin_rpcs_total{code=\"" + code + "\",method=\"Probe\",plugin=\"a\"}"];
  };
  for (const char* fault : {"INTERNAL", "UNKNOWN", "DATA_LOSS", "DEADLINE_EXCEEDED"}) EXPECT_EQ(of(fault), 0) << fault;
  EXPECT_EQ(of("OK"), -1);
  calls.Begin("Probe");
  calls.End("Probe", StatusCode::kInternal, microseconds(1));
  EXPECT_EQ(of("INTERNAL"), 1);
}

TEST_F(CallMetricsTest, AnInvalidCodeIsCountedAsUnknown) {
  calls_.Begin("Probe");
  calls_.End("Probe", static_cast<StatusCode>(4711), microseconds(1));
  EXPECT_EQ(Now()["mooring_plugin_rpcs_total{code=\"UNKNOWN\",method=\"Probe\"}"], 1);
}

TEST_F(CallMetricsTest, SeveralRecordersShareAFamilyWithLabelsOfTheirOwn) {
  CallMetrics a(families_, {{"plugin", "a"}}), b(families_, {{"plugin", "b"}});
  for (CallMetrics* one : {&a, &b, &b}) {
    one->Begin("Probe");
    one->End("Probe", StatusCode::kOk, microseconds(1));
  }
  const Scrape scrape = Now();
  EXPECT_EQ(scrape["mooring_plugin_rpcs_total{code=\"OK\",method=\"Probe\",plugin=\"a\"}"], 1);
  EXPECT_EQ(scrape["mooring_plugin_rpcs_total{code=\"OK\",method=\"Probe\",plugin=\"b\"}"], 2);
}

TEST_F(CallMetricsTest, NoCallIsLostAmongManyThreadsAndScrapes) {
  constexpr int kThreads = 8, kCalls = 2000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, method = "Method" + std::string(1, static_cast<char>('A' + i % 2))] {
      for (int call = 0; call < kCalls; ++call) {
        calls_.Begin(method);
        calls_.End(method, StatusCode::kOk, microseconds(1));
      }
    });
  }
  for (int i = 0; i < 10; ++i) exposition_.Text();
  for (std::thread& thread : threads) thread.join();
  const Scrape scrape = Now();
  for (const char* method : {"MethodA", "MethodB"}) {
    const std::string label = "method=\"" + std::string(method) + "\"}";
    EXPECT_EQ(scrape["mooring_plugin_rpcs_total{code=\"OK\"," + label], kCalls * kThreads / 2);
    EXPECT_EQ(scrape["mooring_plugin_rpcs_in_flight{" + label], 0);
  }
}

TEST_F(CallMetricsTest, ThePageHasMetricsOfTheProcess) {
  const Scrape scrape = Now();
  EXPECT_GT(scrape["process_resident_memory_bytes"], 1e6);
  EXPECT_GT(scrape["process_virtual_memory_bytes"], scrape["process_resident_memory_bytes"]);
  EXPECT_GE(scrape["process_open_fds"], 3);
  EXPECT_GE(scrape["process_max_fds"], scrape["process_open_fds"]);
  EXPECT_GE(scrape["process_cpu_seconds_total"], 0);
  EXPECT_NEAR(scrape["process_start_time_seconds"], static_cast<double>(::time(nullptr)), 60);
}

struct Accepted {
  const char* text;
  ListenAddress address;
};

class ListenAddressIsTaken : public ::testing::TestWithParam<Accepted> {};

TEST_P(ListenAddressIsTaken, AndWrittenAsItWasRead) {
  const auto address = ParseListenAddress(GetParam().text);
  ASSERT_OK(address);
  EXPECT_EQ(*address, GetParam().address);
  EXPECT_EQ(*ParseListenAddress(metrics::ToString(*address)), *address);
}

INSTANTIATE_TEST_SUITE_P(, ListenAddressIsTaken,
                         ::testing::Values(Accepted{"127.0.0.1:9850", {"", "127.0.0.1", 9850}},
                                           Accepted{"[::1]:9850", {"", "::1", 9850}}, Accepted{"[::]:1", {"", "::", 1}},
                                           Accepted{":9850", {"", "", 9850}},
                                           Accepted{"0.0.0.0:65535", {"", "0.0.0.0", 65535}},
                                           Accepted{"127.0.0.1:0", {"", "127.0.0.1", 0}},
                                           Accepted{"unix:/run/m.sock", {"/run/m.sock", "", 0}},
                                           Accepted{"unix:///run/m.sock", {"/run/m.sock", "", 0}}));

class ListenAddressIsRefused : public ::testing::TestWithParam<const char*> {};

TEST_P(ListenAddressIsRefused, WithWhatItMayBe) {
  const auto address = metrics::ParseListenFlag(GetParam());
  EXPECT_THAT(address, FailsWith(StatusCode::kInvalidArgument, "--metrics-listen"));
}

INSTANTIATE_TEST_SUITE_P(, ListenAddressIsRefused,
                         ::testing::Values("9850", "localhost:9850", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                                           "127.0.0.1:-1", "127.0.0.1:9850/metrics", "::1:9850", "[::1]", "[]:1",
                                           "[127.0.0.1]:1", "http://127.0.0.1:9850", "unix:", "unix:relative.sock",
                                           "/run/m.sock", "256.0.0.1:1", ":+1", " :1"));

TEST(ListenFlagTest, EmptyIsNowhere) {
  const auto address = metrics::ParseListenFlag("");
  ASSERT_OK(address);
  EXPECT_FALSE(address->has_value());
}

}  // namespace
}  // namespace mooring::testing
