// The metrics process_*, with the names that Prometheus clients agree on.
#pragma once

#include <prometheus/collectable.h>

#include <chrono>
#include <vector>

namespace mooring::metrics {

class ProcessMetrics final : public prometheus::Collectable {
 public:
  // Leaves out metrics that cannot be read, for example without /proc.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  // When this object was made, which is at the start of the process. proc(5) only has ticks since the boot, and the
  // time of the boot moves with the clock.
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
};

}  // namespace mooring::metrics
