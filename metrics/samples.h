// What is looked at when somebody scrapes, instead of being counted as it happens: a family of figures.
#ifndef MOORING_METRICS_SAMPLES_H_
#define MOORING_METRICS_SAMPLES_H_

#include <prometheus/metric_family.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mooring::metrics {

// Figures as Prometheus has them. Of a truth 1 and 0.
inline double Number(std::uint64_t number) { return static_cast<double>(number); }
inline double Truth(bool holds) { return holds ? 1 : 0; }

class Samples {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  static Samples Gauge(std::string name, std::string help);
  static Samples Counter(std::string name, std::string help);  // *_total; a figure that only ever grows

  Samples& Add(Labels labels, double value);
  Samples& Add(double value) { return Add({}, value); }

  // Behind `families`, unless there is none: a name without a figure says nothing.
  void MoveTo(std::vector<prometheus::MetricFamily>& families);

 private:
  Samples(std::string name, std::string help, prometheus::MetricType type);

  prometheus::MetricFamily family_;
};

}  // namespace mooring::metrics

#endif  // MOORING_METRICS_SAMPLES_H_
