// The measured times, or rates, of one operation.
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
  void Add(Clock::duration took) { Add(std::chrono::duration<double, std::micro>(took).count()); }
  void Add(double figure) { figures_.push_back(figure); }

  bool empty() const { return figures_.empty(); }
  double At(double part) const {  // times in microseconds; 0.5 for the median
    std::vector<double> sorted = figures_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
  }

 private:
  std::vector<double> figures_;
};

}  // namespace mooring::bench
