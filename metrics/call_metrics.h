// Metrics of calls: their number by method and code, their duration by method, and the number under way.
//
//   <prefix>s_total{method,code}   <prefix>_duration_seconds{method}   <prefix>s_in_flight{method}
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>
#include <prometheus/registry.h>

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/call_recorder.h"

namespace mooring::metrics {

// The three families. Several CallMetrics with different labels can share them.
struct CallFamilies {
  // `prefix` is like "mooring_plugin_rpc", and `calls` is for the help texts: "Calls of CSI". `registry` outlives it.
  CallFamilies(prometheus::Registry& registry, const std::string& prefix, const std::string& calls);

  prometheus::Family<prometheus::Counter>& total;
  prometheus::Family<prometheus::Histogram>& seconds;
  prometheus::Family<prometheus::Gauge>& in_flight;
};

// Codes that mean a fault of the host instead of a bad request. Alerts count them.
inline constexpr absl::StatusCode kFaults[] = {absl::StatusCode::kUnknown, absl::StatusCode::kDeadlineExceeded,
                                               absl::StatusCode::kInternal, absl::StatusCode::kDataLoss};

// Takes less than a microsecond for each call. A method and a code appear with the first such call.
class CallMetrics final : public CallRecorder {
 public:
  // `labels` go before method and code. `families` outlive it. The fault counters of `methods` start at 0 now, because
  // Prometheus sees no increase in a counter whose first value is 5.
  explicit CallMetrics(CallFamilies& families, prometheus::Labels labels = {},
                       const std::vector<std::string>& methods = {});

  void Begin(std::string_view method) override;
  void End(std::string_view method, absl::StatusCode code,
           std::optional<std::chrono::steady_clock::duration> took) override;

 private:
  static constexpr std::size_t kCodes = 17;  // the codes of gRPC

  struct Method {
    prometheus::Gauge* in_flight = nullptr;
    prometheus::Histogram* seconds = nullptr;               // null before the first call with a duration
    std::array<prometheus::Counter*, kCodes> by_code = {};  // null before the first call with that code
  };

  Method& Find(std::string_view method);  // under mutex_
  prometheus::Labels With(std::string_view method) const;
  prometheus::Counter& CounterOf(Method& known, std::string_view method, absl::StatusCode code);

  CallFamilies& families_;
  const prometheus::Labels labels_;
  std::mutex mutex_;
  std::map<std::string, Method, std::less<>> methods_;
};

}  // namespace mooring::metrics
