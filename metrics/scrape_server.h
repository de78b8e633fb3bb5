// One page over HTTP, for whoever scrapes it: GET /metrics. Everything else is 404.
//
// One thread serves all connections and waits for none of them: each has a few seconds from its beginning to its end,
// Settings::most are there at a time, and one more takes the place of the oldest that waits for no answer. It holds no
// lock, and nobody waits for it.
#ifndef MOORING_METRICS_SCRAPE_SERVER_H_
#define MOORING_METRICS_SCRAPE_SERVER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "metrics/listener.h"

namespace mooring::metrics {

class ScrapeServer {
 public:
  using Clock = std::chrono::steady_clock;
  using Page = std::function<std::string()>;  // from the server's thread, kept_page.h; what it throws is a 500

  struct Settings {
    std::size_t most = 32;                                // connections at a time
    Clock::duration patience = std::chrono::seconds(10);  // for one connection; Prometheus waits as long by default
  };

  static absl::StatusOr<std::unique_ptr<ScrapeServer>> Start(Listener listener, Page page, Settings settings);
  ~ScrapeServer();  // waits for the page that is being made

  // Ends all connections. False: a page is being made still at `until`, by something that hangs.
  bool Stop(Clock::time_point until);

 private:
  struct Serving;
  explicit ScrapeServer(std::unique_ptr<Serving> serving);
  std::unique_ptr<Serving> serving_;
};

}  // namespace mooring::metrics

#endif  // MOORING_METRICS_SCRAPE_SERVER_H_
