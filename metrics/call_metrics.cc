#include "metrics/call_metrics.h"

#include <utility>

namespace mooring::metrics {
namespace {

// From a publish (a tenth of a millisecond) to a call that waits for a minute.
const prometheus::Histogram::BucketBoundaries kSeconds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

std::size_t IndexOf(absl::StatusCode code) {
  const auto index = static_cast<std::size_t>(code);
  return index <= 16 ? index : static_cast<std::size_t>(absl::StatusCode::kUnknown);
}

}  // namespace

CallFamilies::CallFamilies(prometheus::Registry& registry, const std::string& prefix, const std::string& calls)
    : total(prometheus::BuildCounter()
                .Name(prefix + "s_total")
                .Help(calls + " that have ended, by method and by the code of gRPC that they ended with.")
                .Register(registry)),
      seconds(prometheus::BuildHistogram()
                  .Name(prefix + "_duration_seconds")
                  .Help(calls + " that have ended: how long they took, what they waited for included.")
                  .Register(registry)),
      in_flight(prometheus::BuildGauge()
                    .Name(prefix + "s_in_flight")
                    .Help(calls + " that are under way now.")
                    .Register(registry)) {}

CallMetrics::CallMetrics(CallFamilies& families, prometheus::Labels labels, const std::vector<std::string>& methods)
    : families_(families), labels_(std::move(labels)) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::string& method : methods) {
    for (const absl::StatusCode fault : kFaults) CounterOf(Find(method), method, fault);
  }
}

prometheus::Labels CallMetrics::With(std::string_view method) const {
  prometheus::Labels labels = labels_;
  labels.emplace("method", method);
  return labels;
}

CallMetrics::Method& CallMetrics::Find(std::string_view method) {
  const auto found = methods_.find(method);
  if (found != methods_.end()) return found->second;
  return methods_.emplace(method, Method{.in_flight = &families_.in_flight.Add(With(method))}).first->second;
}

prometheus::Counter& CallMetrics::CounterOf(Method& known, std::string_view method, absl::StatusCode code) {
  prometheus::Counter*& counter = known.by_code[IndexOf(code)];
  if (counter == nullptr) {
    prometheus::Labels labels = With(method);
    labels.emplace("code", absl::StatusCodeToString(static_cast<absl::StatusCode>(IndexOf(code))));
    counter = &families_.total.Add(labels);
  }
  return *counter;
}

void CallMetrics::Begin(std::string_view method) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Find(method).in_flight->Increment();
}

void CallMetrics::End(std::string_view method, absl::StatusCode code,
                      std::optional<std::chrono::steady_clock::duration> took) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Method& known = Find(method);
  known.in_flight->Decrement();
  CounterOf(known, method, code).Increment();
  if (!took) return;
  if (known.seconds == nullptr) known.seconds = &families_.seconds.Add(With(method), kSeconds);
  known.seconds->Observe(std::chrono::duration<double>(*took).count());
}

}  // namespace mooring::metrics
