// The measured times of one operation.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace mooring::bench {

class Samples {
 public:
  using Clock = std::chrono::steady_clock;

  void Time(const std::function<void()>& work) {
    const Clock::time_point start = Clock::now();
    work();
    Add(Clock::now() - start);
  }
  void Add(Clock::duration took) { micros_.push_back(std::chrono::duration<double, std::micro>(took).count()); }

  double At(double part) const {  // microseconds; 0.5 for the median
    std::vector<double> sorted = micros_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
  }

 private:
  std::vector<double> micros_;
};

}  // namespace mooring::bench
