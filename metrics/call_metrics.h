// Calls as metrics: how many by method and code, how long by method, and how many are under way.
//
//   <prefix>s_total{method,code}   <prefix>_duration_seconds{method}   <prefix>s_in_flight{method}
#ifndef MOORING_METRICS_CALL_METRICS_H_
#define MOORING_METRICS_CALL_METRICS_H_

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

// The three families, which several CallMetrics with other labels may share.
struct CallFamilies {
  // `prefix`: "mooring_plugin_rpc"; `calls`, for the help texts: "Calls of CSI". `registry` outlives it.
  CallFamilies(prometheus::Registry& registry, const std::string& prefix, const std::string& calls);

  prometheus::Family<prometheus::Counter>& total;
  prometheus::Family<prometheus::Histogram>& seconds;
  prometheus::Family<prometheus::Gauge>& in_flight;
};

// The codes for which a host is at fault, not what was asked of it: alerts count them.
inline constexpr absl::StatusCode kFaults[] = {absl::StatusCode::kUnknown, absl::StatusCode::kDeadlineExceeded,
                                               absl::StatusCode::kInternal, absl::StatusCode::kDataLoss};

// Well below a microsecond a call. A method is there from its first call on, and a code from the first such call.
class CallMetrics final : public CallRecorder {
 public:
  // `labels` go before method and code. `families` outlive it. Of `methods` the faults are there from now on, as 0:
  // Prometheus takes what it first sees as 5 for no increase.
  explicit CallMetrics(CallFamilies& families, prometheus::Labels labels = {},
                       const std::vector<std::string>& methods = {});

  void Begin(std::string_view method) override;
  void End(std::string_view method, absl::StatusCode code,
           std::optional<std::chrono::steady_clock::duration> took) override;

 private:
  static constexpr std::size_t kCodes = 17;  // of gRPC

  struct Method {
    prometheus::Gauge* in_flight = nullptr;
    prometheus::Histogram* seconds = nullptr;               // from the first that has a time
    std::array<prometheus::Counter*, kCodes> by_code = {};  // from the first with that code
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

#endif  // MOORING_METRICS_CALL_METRICS_H_
