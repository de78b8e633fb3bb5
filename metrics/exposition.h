// All metrics of a program as text.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/registry.h>

#include <functional>
#include <string>
#include <vector>

#include "metrics/process_metrics.h"

namespace mooring::metrics {

class Exposition {
 public:
  using Collect = std::function<std::vector<prometheus::MetricFamily>()>;

  // Each Text() calls `collect`.
  explicit Exposition(Collect collect) : collect_(std::move(collect)) {}

  // For metrics that are counted as they happen.
  prometheus::Registry& registry() { return registry_; }

  // In the text format of Prometheus. Thread-safe if `collect` is.
  std::string Text() const;

 private:
  prometheus::Registry registry_;
  const ProcessMetrics process_;
  const Collect collect_;
};

}  // namespace mooring::metrics
