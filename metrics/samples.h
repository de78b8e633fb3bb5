// A metric family whose values are read at each scrape, instead of being counted.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mooring::metrics {

// Values of samples. Prometheus has numbers only: true is 1, false is 0.
inline double IntegerSample(std::uint64_t number) { return static_cast<double>(number); }
inline double BoolSample(bool holds) { return holds ? 1 : 0; }

class Samples {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  static Samples Gauge(std::string name, std::string help);
  static Samples Counter(std::string name, std::string help);  // *_total: a value that only grows

  Samples& Add(Labels labels, double value);
  Samples& Add(double value) { return Add({}, value); }

  // Appends the family to `families`, unless it has no samples.
  void MoveTo(std::vector<prometheus::MetricFamily>& families);

 private:
  Samples(std::string name, std::string help, prometheus::MetricType type);

  prometheus::MetricFamily family_;
};

}  // namespace mooring::metrics
