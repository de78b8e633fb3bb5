// What every process tells, under the names that all programs with metrics use: process_*.
#ifndef MOORING_METRICS_PROCESS_METRICS_H_
#define MOORING_METRICS_PROCESS_METRICS_H_

#include <prometheus/collectable.h>

#include <chrono>
#include <vector>

namespace mooring::metrics {

class ProcessMetrics final : public prometheus::Collectable {
 public:
  // What cannot be looked at (a /proc that is not there) is left out.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  // This object's, which is made as the process starts: proc(5) has it in ticks since a boot whose time moves.
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
};

}  // namespace mooring::metrics

#endif  // MOORING_METRICS_PROCESS_METRICS_H_
