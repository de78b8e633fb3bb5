// Serves one page over HTTP: GET /metrics. Everything else is 404.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "http/server.h"
#include "metrics/listener.h"

namespace mooring::metrics {

class ScrapeServer {
 public:
  using Clock = http::Server::Clock;
  using Page = std::function<std::string()>;  // called by one thread (cached_page.h); an exception is a 500

  struct Settings {
    std::size_t most = 32;                                // open connections
    Clock::duration patience = std::chrono::seconds(10);  // for a request: Prometheus' default scrape_timeout
  };

  static absl::StatusOr<std::unique_ptr<ScrapeServer>> Start(Listener listener, Page page, Settings settings);

  // Closes all connections. False: a page is still being made at `until`.
  bool Stop(Clock::time_point until) { return server_->Stop(until); }

 private:
  explicit ScrapeServer(std::unique_ptr<http::Server> server) : server_(std::move(server)) {}
  std::unique_ptr<http::Server> server_;  // its destructor waits for a page that is being made
};

}  // namespace mooring::metrics
