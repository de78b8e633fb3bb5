// Serves one page over HTTP: GET /metrics. Everything else is 404.
//
// A single thread serves all connections without blocking on any. A connection has Settings::patience from its begin to
// its end. At most Settings::most connections are open. A further one replaces the oldest that waits for no answer. So
// slow or many clients take neither memory nor threads. (cpp-httplib 0.11 blocks a thread for each connection, has
// timeouts for single reads only, and does not limit the headers or the queue of connections.)
#pragma once

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
  using Page = std::function<std::string()>;  // called by the server's thread (cached_page.h); an exception is a 500

  struct Settings {
    std::size_t most = 32;                                // open connections
    Clock::duration patience = std::chrono::seconds(10);  // for one connection: Prometheus' default scrape_timeout
  };

  static absl::StatusOr<std::unique_ptr<ScrapeServer>> Start(Listener listener, Page page, Settings settings);
  ~ScrapeServer();  // waits for a page that is being made

  // Closes all connections. False: a page is still being made at `until`.
  bool Stop(Clock::time_point until);

 private:
  struct Serving;
  explicit ScrapeServer(std::unique_ptr<Serving> serving);
  std::unique_ptr<Serving> serving_;
};

}  // namespace mooring::metrics
