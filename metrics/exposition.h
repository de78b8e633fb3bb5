// All metrics of a program as text.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/registry.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace mooring::metrics {

// The metrics process_*, with the names that Prometheus clients agree on.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  // Leaves out metrics that cannot be read, for example without /proc.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  // When this object was made, which is at the start of the process. proc(5) only has ticks since the boot, and the
  // time of the boot moves with the clock.
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
};

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
