// Fetches /metrics over a real socket and parses it strictly. Also reads the metric names in docs/operations.md, the
// dashboard and the rules.
#pragma once

#include <map>
#include <set>
#include <string>

namespace mooring::testing {

// `address`: "127.0.0.1:9850", "[::1]:9850" or "unix:/run/metrics.sock". Sends `request` as it is, and returns the
// whole answer, or nothing if there is none.
std::string Exchange(const std::string& address, const std::string& request);
std::string HttpGet(const std::string& address, const std::string& path);  // the whole response

struct MetricFamily {
  std::string type;              // "counter", "gauge", "histogram"
  std::set<std::string> labels;  // without `le`

  bool operator==(const MetricFamily&) const = default;
};
std::ostream& operator<<(std::ostream& out, const MetricFamily& family);
using MetricFamilies = std::map<std::string, MetricFamily>;

struct Scrape {
  std::map<std::string, double> values;  // by series: name{a="b",c="d"}, labels in order
  MetricFamilies families;

  // The value of the series, or -1.
  double operator[](const std::string& series) const;
};

// The test fails on a line that is not in the format, a sample without HELP and TYPE, and an unconventional name.
Scrape ParseScrape(const std::string& page);
Scrape ScrapeOf(const std::string& address);  // GET /metrics, which must be 200

// The rows of docs/operations.md whose name begins with one of these.
MetricFamilies FamiliesOfThePage(const std::set<std::string>& prefixes);

// Every metric name that the dashboard and the rules use and that begins so.
std::set<std::string> NamesInUse(const std::string& prefix);

}  // namespace mooring::testing
