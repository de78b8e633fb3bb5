// docs/operations.md has a section for each alert, and the dashboard follows Grafana's model. Other tests check that
// the metrics exist (tests/rpc/calls/metrics_test.cc, tests/manager/system/metrics_test.cc) and that Prometheus accepts
// the rules (tests/metrics/run).
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/man_page.h"

namespace mooring::manager {
namespace {

using Json = nlohmann::json;
using mooring::testing::Matches;
using ::testing::AnyOf;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

std::string Read(const std::string& path) {
  std::ifstream file(std::string(MOORING_SOURCE_DIR) + "/" + path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

TEST(OperationsPageTest, HasASectionForEachAlert) {
  const std::string rules = Read("packaging/prometheus/mooring.rules.yaml");
  const std::vector<std::string> alerts = Matches(rules, R"(\n +- alert: (\w+)\n)");
  EXPECT_THAT(alerts, Not(IsEmpty()));
  EXPECT_EQ(Matches(Read("docs/operations.md"), R"(\n### (Mooring\w+)\n)"), alerts);
  std::vector<std::string> links;
  for (const std::string& alert : alerts) links.push_back("docs/operations.md#" + Lower(alert));
  EXPECT_EQ(Matches(rules, R"(\n +runbook_url: (\S+)\n)"), links);
  EXPECT_EQ(Matches(rules, R"(\n +summary: "([^"\n]+)\"\n)").size(), alerts.size());
  const std::vector<std::string> severities = Matches(rules, R"(\n +severity: (\w+)\n)");
  EXPECT_EQ(severities.size(), alerts.size());
  for (const std::string& severity : severities) EXPECT_THAT(severity, AnyOf("critical", "warning", "info"));
}

class DashboardTest : public ::testing::Test {
 protected:
  const Json dashboard_ = Json::parse(Read("packaging/grafana/mooring.json"));
};

TEST_F(DashboardTest, HasRequiredFields) {
  EXPECT_EQ(dashboard_.at("title"), "Mooring");
  EXPECT_THAT(dashboard_.at("uid").get<std::string>(), MatchesRegex("[a-zA-Z0-9_-]{1,40}"));
  EXPECT_GE(dashboard_.at("schemaVersion").get<int>(), 36);
  EXPECT_TRUE(dashboard_.at("time").contains("from") && dashboard_.at("time").contains("to"));
  EXPECT_FALSE(dashboard_.contains("id")) << "the id belongs to one Grafana";
}

TEST_F(DashboardTest, PanelsUseDatasourceAndInstanceVariables) {
  std::set<std::string> variables;
  for (const Json& variable : dashboard_.at("templating").at("list")) variables.insert(variable.at("name"));
  EXPECT_EQ(variables, (std::set<std::string>{"datasource", "instance"}));
  for (const Json& panel : dashboard_.at("panels")) {
    EXPECT_THAT(panel.at("type").get<std::string>(), AnyOf("row", "stat", "timeseries", "bargauge", "table"));
    if (panel.at("type") == "row") continue;
    std::set<std::string> references;
    EXPECT_EQ(panel.at("datasource").at("uid"), "${datasource}") << panel.at("title");
    EXPECT_THAT(panel.at("targets"), Not(IsEmpty())) << panel.at("title");
    for (const Json& target : panel.at("targets")) {
      const std::string expression = target.at("expr");
      EXPECT_TRUE(references.insert(target.at("refId")).second) << panel.at("title");
      EXPECT_EQ(std::count(expression.begin(), expression.end(), '('),
                std::count(expression.begin(), expression.end(), ')'))
          << expression;
      EXPECT_NE(expression.find("instance=~\"$instance\""), std::string::npos) << expression;
    }
  }
}

}  // namespace
}  // namespace mooring::manager
