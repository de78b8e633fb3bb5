// A page that is made for each request. If that takes too much processor time, the last page is returned again until it
// is too old.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

namespace mooring::metrics {

class CachedPage {
 public:
  using Clock = std::chrono::steady_clock;
  using Make = std::function<std::string()>;

  struct Limits {
    double share = 0.1;                                        // of one processor, on average
    Clock::duration ahead = std::chrono::milliseconds(500);    // processor time that may be used in advance
    Clock::duration oldest = std::chrono::milliseconds(1000);  // age of a page that is returned again
  };

  explicit CachedPage(Make make) : CachedPage(std::move(make), Limits()) {}
  CachedPage(Make make, Limits limits) : make_(std::move(make)), limits_(limits) {}

  // For one thread. An exception of `make` is passed on, and no page is kept then.
  const std::string& Get();

 private:
  bool MayReturnAgain(Clock::time_point now) const;

  const Make make_;
  const Limits limits_;
  std::string page_;
  bool has_page_ = false;
  Clock::time_point made_ = {};
  Clock::time_point asked_ = Clock::now();
  Clock::duration taken_{};  // processor time used, less the share since
};

}  // namespace mooring::metrics
