#include "metrics/scrape_server.h"

#include <fmt/format.h>

#include <utility>

#include "base/status.h"
#include "metrics/cached_page.h"

namespace mooring::metrics {
namespace {

constexpr http::RequestLimits kLimits = {.head = 8 * 1024, .body = 1024};  // a scrape has no body

http::Response Refusal(int status, const std::string& words) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = fmt::format("{}\n", words)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScrapeServer>> ScrapeServer::Start(Listener listener, Page page, Settings settings) {
  const auto answer = [page = std::make_shared<CachedPage>(std::move(page))](const http::Request& request) {
    if (request.method != "GET" || request.path != "/metrics") {
      return Refusal(404, "only GET /metrics exists here");
    }
    return http::Response{.type = "text/plain; version=0.0.4; charset=utf-8", .body = page->Get()};
  };
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<http::Server> server,
                           http::Server::Start(std::move(listener.socket), answer, Refusal,
                                               {.name = "metrics",
                                                .threads = 1,  // as CachedPage needs
                                                .most = settings.most,
                                                .patience = settings.patience,
                                                .limits = kLimits}));
  return std::unique_ptr<ScrapeServer>(new ScrapeServer(std::move(server)));
}

}  // namespace mooring::metrics
