#include "metrics/samples.h"

namespace mooring::metrics {

using prometheus::ClientMetric;
using prometheus::MetricType;

Samples::Samples(std::string name, std::string help, MetricType type) {
  family_.name = std::move(name);
  family_.help = std::move(help);
  family_.type = type;
}

Samples Samples::Gauge(std::string name, std::string help) {
  return Samples(std::move(name), std::move(help), MetricType::Gauge);
}

Samples Samples::Counter(std::string name, std::string help) {
  return Samples(std::move(name), std::move(help), MetricType::Counter);
}

Samples& Samples::Add(Labels labels, double value) {
  ClientMetric metric;
  for (const auto& [name, text] : labels) metric.label.push_back({std::string(name), std::string(text)});
  (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family_.metric.push_back(std::move(metric));
  return *this;
}

void Samples::MoveTo(std::vector<prometheus::MetricFamily>& families) {
  if (!family_.metric.empty()) families.push_back(std::move(family_));
}

}  // namespace mooring::metrics
