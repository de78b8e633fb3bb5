// Serves one page over HTTP: GET /metrics. Everything else is 404.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "http/server.h"
#include "metrics/listener.h"

namespace mooring::metrics {

// A page that is made for each request. If that takes too much processor time, the last page is returned again until it
// is too old.
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

class ScrapeServer {
 public:
  using Clock = http::Server::Clock;
  using Page = std::function<std::string()>;  // called by one thread (CachedPage); an exception is a 500

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
