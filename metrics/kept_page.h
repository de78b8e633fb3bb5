// A page that is made for each who asks, as long as that does not take too much of the processor. Then it is told again
// as it was, until it is too old.
#ifndef MOORING_METRICS_KEPT_PAGE_H_
#define MOORING_METRICS_KEPT_PAGE_H_

#include <chrono>
#include <functional>
#include <string>
#include <utility>

namespace mooring::metrics {

class KeptPage {
 public:
  using Clock = std::chrono::steady_clock;
  using Make = std::function<std::string()>;

  struct Limits {
    double share = 0.1;                                        // of one processor, over some time
    Clock::duration ahead = std::chrono::milliseconds(500);    // what may be taken of it at once
    Clock::duration oldest = std::chrono::milliseconds(1000);  // of a page that is told again
  };

  explicit KeptPage(Make make) : KeptPage(std::move(make), Limits()) {}
  KeptPage(Make make, Limits limits) : make_(std::move(make)), limits_(limits) {}

  // From one thread. Throws what making it throws; that is kept for nobody.
  const std::string& Get();

 private:
  bool MayBeToldAgain(Clock::time_point now) const;

  const Make make_;
  const Limits limits_;
  std::string page_;
  bool is_there_ = false;
  Clock::time_point made_ = {};
  Clock::time_point looked_ = Clock::now();
  Clock::duration taken_{};  // processor time, less the share since
};

}  // namespace mooring::metrics

#endif  // MOORING_METRICS_KEPT_PAGE_H_
