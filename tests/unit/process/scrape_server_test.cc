// The page over real sockets: TCP on the loopback and a unix one; and clients that are slow, many or rude.
#include "metrics/scrape_server.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include <future>
#include <stdexcept>

#include "base/file/unique_fd.h"
#include "tests/support/scrape.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

using metrics::Listener;
using metrics::ParseListenAddress;
using metrics::ScrapeServer;
using Clock = ScrapeServer::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

class ScrapeServerTest : public ::testing::Test {
 protected:
  // Gives its address.
  std::string Serve(
      const std::string& address, ScrapeServer::Page page = [] { return "a 1\n"; },
      ScrapeServer::Settings settings = {}) {
    auto listener = Listener::Bind(*ParseListenAddress(address));
    EXPECT_OK(listener);
    if (!listener.ok()) return "";
    const std::string bound = metrics::ToString(listener->address);
    auto server = ScrapeServer::Start(*std::move(listener), std::move(page), settings);
    EXPECT_OK(server);
    server_ = *std::move(server);
    return bound;
  }

  static UniqueFd ConnectTo(const std::string& address) {
    sockaddr_in in = {};
    in.sin_family = AF_INET;
    in.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&in), sizeof in), 0);
    return fd;
  }

  // Within a few seconds.
  static bool IsHungUp(const UniqueFd& fd) {
    const timeval patience = {5, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char byte = 0;
    const ssize_t got = ::recv(fd.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

  TempDir dir_;
  std::unique_ptr<ScrapeServer> server_;
};

TEST_F(ScrapeServerTest, ServesThePageOnEachKindOfAddress) {
  for (const std::string& address : {std::string("127.0.0.1:0"), std::string("[::1]:0"), std::string(":0"),
                                     std::string("0.0.0.0:0"), "unix:" + (dir_ / "metrics.sock")}) {
    std::string bound = Serve(address);
    EXPECT_THAT(bound, Not(EndsWith(":0")));
    if (address == ":0") bound = "127.0.0.1" + bound;
    const std::string response = HttpGet(bound, "/metrics");
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n")) << address;
    EXPECT_THAT(response, HasSubstr("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    EXPECT_THAT(response, HasSubstr("\r\nContent-Length: 4\r\n"));
    EXPECT_THAT(response, EndsWith("\r\n\r\na 1\n"));
  }
}

TEST_F(ScrapeServerTest, AnswersNotFoundForOtherPaths) {
  const std::string at = Serve("127.0.0.1:0");
  EXPECT_THAT(HttpGet(at, "/metrics?x=y"), StartsWith("HTTP/1.1 200 "));
  for (const char* path : {"/", "/metrics/", "/metricsx", "/../metrics", "http://127.0.0.1/metrics"}) {
    EXPECT_THAT(HttpGet(at, path), StartsWith("HTTP/1.1 404 ")) << path;
  }
  for (const char* method : {"POST", "HEAD", "PUT", "get", "DELETE"}) {
    EXPECT_THAT(Exchange(at, std::string(method) + " /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "))
        << method;
  }
  for (const char* rude : {"\r\n\r\n", "GET /metrics\r\n\r\n", "SSH-2.0-x\n\n"}) {
    EXPECT_THAT(Exchange(at, rude), StartsWith("HTTP/1.1 400 ")) << rude;
  }
  EXPECT_THAT(HttpGet(at, "/" + std::string(10'000, 'x')), StartsWith("HTTP/1.1 431 "));
}

TEST_F(ScrapeServerTest, ALongPageArrivesWhole) {
  const std::string page(5'000'000, 'x');
  const std::string at = Serve("127.0.0.1:0", [&page] { return page; });
  const std::string response = HttpGet(at, "/metrics");
  EXPECT_EQ(response.size() - response.find("\r\n\r\n") - 4, page.size());
}

TEST_F(ScrapeServerTest, AFailedPageIsAnError) {
  const std::string at = Serve("127.0.0.1:0", []() -> std::string { throw std::runtime_error("out of paper"); });
  EXPECT_THAT(HttpGet(at, "/metrics"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(HttpGet(at, "/metrics"), Not(HasSubstr("out of paper"))) << "that is for the log";
}

TEST_F(ScrapeServerTest, ServesTheNextRequestAfterAnException) {
  int calls = 0;
  const std::string at = Serve("127.0.0.1:0", [&calls]() -> std::string {
    if (++calls == 1) throw calls;  // NOLINT(hicpp-exception-baseclass): the worst that can come
    return "a 1\n";
  });
  EXPECT_THAT(HttpGet(at, "/metrics"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(HttpGet(at, "/metrics"), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(server_->Stop(Clock::now() + seconds(5)));
}

// As it does without memory; here for there are more descriptors to wait for than a process may have.
TEST_F(ScrapeServerTest, APollThatFailsIsTriedAgain) {
  const std::string at = Serve("127.0.0.1:0");
  const UniqueFd before = ConnectTo(at);
  EXPECT_THAT(HttpGet(at, "/metrics"), StartsWith("HTTP/1.1 200 ")) << "then the one before it is accepted, too";
  rlimit usual = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none = {1, usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(::send(before.get(), "GET /me", 7, MSG_NOSIGNAL), 7);
  EXPECT_TRUE(IsHungUp(before));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_THAT(HttpGet(at, "/metrics"), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(server_->Stop(Clock::now() + seconds(5)));
}

// 33 that say nothing do not push out the one whose page is on its way.
TEST_F(ScrapeServerTest, ReplacesAConnectionThatIsBeingAnsweredLast) {
  const std::string page(8'000'000, 'x');
  const std::string at = Serve("127.0.0.1:0", [&page] { return page; }, {.most = 3, .patience = seconds(60)});
  const UniqueFd scraper = ConnectTo(at);
  const std::string request = "GET /metrics HTTP/1.1\r\n\r\n";
  ASSERT_GT(::send(scraper.get(), request.data(), request.size(), MSG_NOSIGNAL), 0);
  char first = 0;
  ASSERT_EQ(::recv(scraper.get(), &first, 1, 0), 1);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 6; ++i) silent.push_back(ConnectTo(at));
  EXPECT_TRUE(IsHungUp(silent.front()));
  std::vector<char> buffer(1 << 20);
  std::size_t read = 1;
  for (ssize_t got; (got = ::recv(scraper.get(), buffer.data(), buffer.size(), 0)) > 0;) {
    read += static_cast<std::size_t>(got);
    if (read > page.size()) break;  // it need not hang up
  }
  EXPECT_GT(read, page.size());
}

// ---- the page that is kept

void Work(milliseconds time) {
  timespec start = {}, now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
  do {
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (seconds(now.tv_sec - start.tv_sec) + std::chrono::nanoseconds(now.tv_nsec - start.tv_nsec) < time);
}

TEST(CachedPageTest, AnExpensivePageIsReusedUntilItIsOld) {
  int made = 0;
  metrics::CachedPage page(
      [&made] {
        Work(milliseconds(5));
        return std::to_string(++made);
      },
      {.share = 0.1, .ahead = milliseconds(20), .oldest = milliseconds(200)});
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(page.Get(), std::to_string(i));
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) page.Get();
  // The host may be busy: then it takes longer, and a tenth of that time is more.
  const auto took = std::chrono::steady_clock::now() - began;
  EXPECT_LE(made, 8 + took / milliseconds(50)) << "and without a keeper 1003, in more than 5 s";
  std::this_thread::sleep_for(milliseconds(210));
  const int before = made;
  EXPECT_EQ(page.Get(), std::to_string(before + 1));
}

TEST(CachedPageTest, ACheapPageIsAlwaysNew) {
  int made = 0;
  metrics::CachedPage page([&made] { return std::to_string(++made); });
  for (int i = 1; i <= 1000; ++i) ASSERT_EQ(page.Get(), std::to_string(i));
}

TEST(CachedPageTest, AFailedPageIsNotKept) {
  metrics::CachedPage page(
      []() -> std::string {
        Work(milliseconds(2));
        throw std::runtime_error("out of paper");
      },
      {.share = 0, .ahead = milliseconds(1), .oldest = seconds(10)});
  for (int i = 0; i < 3; ++i) EXPECT_THROW(page.Get(), std::runtime_error);
}

TEST_F(ScrapeServerTest, SlowClientsDelayNobodyAndAreDisconnected) {
  constexpr milliseconds kPatience(2000);
  const std::string at = Serve("127.0.0.1:0", [] { return "a 1\n"; }, {.most = 8, .patience = kPatience});
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 7; ++i) {
    slow.push_back(ConnectTo(at));
    ASSERT_EQ(::send(slow.back().get(), "GET /me", 7, MSG_NOSIGNAL), 7);
  }
  const auto start = Clock::now();
  EXPECT_THAT(HttpGet(at, "/metrics"), StartsWith("HTTP/1.1 200 "));
  EXPECT_LT(Clock::now() - start, kPatience);
  for (const UniqueFd& fd : slow) EXPECT_TRUE(IsHungUp(fd));
}

TEST_F(ScrapeServerTest, AConnectionAboveTheLimitReplacesTheOldest) {
  const std::string at = Serve("127.0.0.1:0", [] { return "a 1\n"; }, {.most = 3, .patience = seconds(60)});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(ConnectTo(at));
  EXPECT_THAT(HttpGet(at, "/metrics"), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(IsHungUp(silent.front()));
}

TEST_F(ScrapeServerTest, AClientThatDoesNotReadDoesNotDelayTheStop) {
  const std::string page(8'000'000, 'x');
  const std::string at = Serve("127.0.0.1:0", [&page] { return page; });
  const UniqueFd deaf = ConnectTo(at);
  const std::string request = "GET /metrics HTTP/1.1\r\n\r\n";
  ASSERT_GT(::send(deaf.get(), request.data(), request.size(), MSG_NOSIGNAL), 0);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_TRUE(server_->Stop(Clock::now() + seconds(2)));
}

TEST_F(ScrapeServerTest, AHangingPageDelaysTheStopUntilItsDeadlineOnly) {
  std::promise<void> release;
  const std::string at = Serve("127.0.0.1:0", [future = release.get_future().share()] {
    future.wait();
    return std::string("a 1\n");
  });
  auto scrape = std::async(std::launch::async, [&at] { return HttpGet(at, "/metrics"); });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(server_->Stop(Clock::now() + milliseconds(50)));
  release.set_value();
  EXPECT_TRUE(server_->Stop(Clock::now() + seconds(5)));
  scrape.wait();
}

TEST_F(ScrapeServerTest, RefusesAnAddressInUseAndReplacesAStaleSocket) {
  const std::string at = Serve("127.0.0.1:0");
  EXPECT_THAT(Listener::Bind(*ParseListenAddress(at)),
              FailsWith(StatusCode::kFailedPrecondition, "another process listens there"));
  const std::string socket = "unix:" + Serve("unix:" + (dir_ / "m.sock")).substr(5);
  EXPECT_THAT(Listener::Bind(*ParseListenAddress(socket)),
              FailsWith(StatusCode::kFailedPrecondition, "served by another process"));
  server_.reset();
  EXPECT_OK(Listener::Bind(*ParseListenAddress(socket)));
}

TEST_F(ScrapeServerTest, EveryUserWhoCanReachTheDirectoryCanUseTheUnixSocket) {
  Serve("unix:" + (dir_ / "m.sock"));
  struct stat status = {};
  ASSERT_EQ(::stat((dir_ / "m.sock").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0666U);
}

}  // namespace
}  // namespace mooring::testing
