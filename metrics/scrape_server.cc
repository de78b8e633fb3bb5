#include "metrics/scrape_server.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "base/status.h"

namespace mooring::metrics {
namespace {

constexpr http::RequestLimits kLimits = {.head = 8 * 1024, .body = 1024};  // a scrape has no body

http::Response Refusal(int status, const std::string& words) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = fmt::format("{}\n", words)};
}

using Clock = CachedPage::Clock;

Clock::duration ProcessorTime() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
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

bool CachedPage::MayReturnAgain(Clock::time_point now) const {
  return has_page_ && taken_ > limits_.ahead && now - made_ < limits_.oldest;
}

const std::string& CachedPage::Get() {
  const Clock::time_point now = Clock::now();
  const auto share = std::chrono::duration_cast<Clock::duration>((now - asked_) * limits_.share);
  taken_ = std::max(taken_ - share, Clock::duration::zero());
  asked_ = now;
  if (MayReturnAgain(now)) return page_;
  const Clock::duration before = ProcessorTime();
  const absl::Cleanup count = [&] { taken_ += ProcessorTime() - before; };
  has_page_ = false;
  page_ = make_();
  has_page_ = true;
  made_ = Clock::now();
  return page_;
}

}  // namespace mooring::metrics
