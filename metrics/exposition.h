// All metrics of a program, as a page of text.
#ifndef MOORING_METRICS_EXPOSITION_H_
#define MOORING_METRICS_EXPOSITION_H_

#include <prometheus/collectable.h>
#include <prometheus/registry.h>

#include <functional>
#include <string>
#include <vector>

#include "metrics/process_metrics.h"

namespace mooring::metrics {

class Exposition {
 public:
  using Look = std::function<std::vector<prometheus::MetricFamily>()>;

  // `look` is called for each page, by whoever asks for it.
  explicit Exposition(Look look) : look_(std::move(look)) {}

  // Of what is counted as it happens.
  prometheus::Registry& registry() { return registry_; }

  // In the text format of Prometheus. Safe from several threads, if `look` is.
  std::string Text() const;

 private:
  prometheus::Registry registry_;
  const ProcessMetrics process_;
  const Look look_;
};

}  // namespace mooring::metrics

#endif  // MOORING_METRICS_EXPOSITION_H_
