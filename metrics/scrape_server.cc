#include "metrics/scrape_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/status.h"
#include "metrics/cached_page.h"

namespace mooring::metrics {
namespace {

using Clock = ScrapeServer::Clock;

constexpr std::size_t kLongestRequest = 8 * 1024;  // request line and headers
constexpr std::chrono::milliseconds kPause{100};   // after a lack of memory or file descriptors
constexpr std::string_view kPath = "/metrics";

std::string Response(std::string_view status, std::string_view type, std::string_view body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", status,
                     type, body.size(), body);
}

std::string Refusal(std::string_view status, std::string_view words) {
  return Response(status, "text/plain; charset=utf-8", fmt::format("{}\n", words));
}

// The target of "GET /metrics?x=y HTTP/1.1" without its query. Empty: another request.
std::string_view TargetOf(std::string_view line) {
  constexpr std::string_view kGet = "GET ";
  const std::size_t end = line.find(' ', kGet.size());
  if (!line.starts_with(kGet) || end == std::string_view::npos) return {};
  const std::string_view target = line.substr(kGet.size(), end - kGet.size());
  return target.substr(0, target.find('?'));
}

bool IsHttp(std::string_view line) { return line.find(" HTTP/1.") != std::string_view::npos; }

std::string AnswerTo(std::string_view request, CachedPage& page) {
  const std::string_view line = request.substr(0, request.find_first_of("\r\n"));
  if (!IsHttp(line)) return Refusal("400 Bad Request", "this is no HTTP request");
  if (TargetOf(line) != kPath) return Refusal("404 Not Found", "only GET /metrics exists here");
  try {
    return Response("200 OK", "text/plain; version=0.0.4; charset=utf-8", page.Get());
  } catch (const std::exception& error) {
    log::Error("cannot make the page of metrics", {{"cause", error.what()}});
    return Refusal("500 Internal Server Error", "the metrics cannot be read; the log says why");
  }
}

bool IsWhole(std::string_view request) {
  return request.find("\r\n\r\n") != std::string_view::npos || request.find("\n\n") != std::string_view::npos;
}

// A connection:   receives the request ─▶ sends the answer ─▶ discards further input until the client closes
class Connection {
 public:
  Connection(UniqueFd fd, Clock::time_point over) : until(over), fd_(std::move(fd)) {}

  pollfd Waited() const { return {fd_.get(), static_cast<short>(state_ == State::kAnswers ? POLLOUT : POLLIN), 0}; }

  // Reads or writes as much as is possible now. False: the connection is over.
  bool Advance(CachedPage& page) {
    if (state_ == State::kAnswers) return Send();
    if (!Receive()) return false;
    if (state_ == State::kIsDone) return true;
    if (text_.size() > kLongestRequest) {
      return Answer(Refusal("431 Request Header Fields Too Large", "the request is too long"));
    }
    return !IsWhole(text_) || Answer(AnswerTo(text_, page));
  }

  // The lowest is closed first: clients with their answer, then clients without a whole request.
  int priority() const { return state_ == State::kIsDone ? 0 : state_ == State::kAsks ? 1 : 2; }

  const Clock::time_point until;

 private:
  enum class State { kAsks, kAnswers, kIsDone };

  bool Receive() {
    std::array<char, 2048> buffer;
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (state_ == State::kAsks) text_.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  bool Answer(std::string answer) {
    text_ = std::move(answer);
    state_ = State::kAnswers;
    return Send();
  }

  bool Send() {
    const std::string_view left = std::string_view(text_).substr(sent_);
    const ssize_t went = ::send(fd_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (went < 0) return errno == EAGAIN || errno == EINTR;
    sent_ += static_cast<std::size_t>(went);
    if (sent_ < text_.size()) return true;
    // A close now would reset the connection and drop the answer, if the client has sent unread bytes.
    state_ = State::kIsDone;
    return ::shutdown(fd_.get(), SHUT_WR) == 0;
  }

  UniqueFd fd_;
  State state_ = State::kAsks;
  std::string text_;  // the request, then the answer
  std::size_t sent_ = 0;
};

int MillisecondsUntil(Clock::time_point time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

struct ScrapeServer::Serving {
  Serving(Listener in_listener, Page in_page, Settings in_settings)
      : listener(std::move(in_listener)),
        page(std::move(in_page)),
        settings(in_settings),
        stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void Run();
  bool Step();          // WaitAndServe, with its exceptions; false: stop
  bool WaitAndServe();  // false: stop
  bool Pause(const char* why);
  void Accept();
  void MakeRoom();
  Clock::time_point NextWakeup() const;

  const Listener listener;
  CachedPage page;  // used by the thread only
  const Settings settings;
  const UniqueFd stop;
  std::list<Connection> connections;                          // the oldest first; used by the thread only
  Clock::time_point accept_after = Clock::time_point::min();  // used by the thread only

  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::thread thread;
};

Clock::time_point ScrapeServer::Serving::NextWakeup() const {
  Clock::time_point next = Clock::now() + std::chrono::minutes(1);
  if (!connections.empty()) next = std::min(next, connections.front().until);
  if (accept_after > Clock::now()) next = std::min(next, accept_after);
  return next;
}

bool ScrapeServer::Serving::WaitAndServe() {
  const bool accepts = Clock::now() >= accept_after;
  std::vector<pollfd> waited = {{stop.get(), POLLIN, 0}, {accepts ? listener.socket.get() : -1, POLLIN, 0}};
  for (const Connection& connection : connections) waited.push_back(connection.Waited());
  if (::poll(waited.data(), waited.size(), MillisecondsUntil(NextWakeup())) < 0) {
    return errno == EINTR || Pause("poll(2) fails");
  }
  if (waited[0].revents != 0) return false;
  std::size_t index = 2;
  for (auto connection = connections.begin(); connection != connections.end(); ++index) {
    const bool goes_on = (waited[index].revents == 0 || connection->Advance(page)) && Clock::now() < connection->until;
    connection = goes_on ? std::next(connection) : connections.erase(connection);
  }
  if (waited[1].revents != 0) Accept();
  return true;
}

// For example without memory: closes all connections and waits a moment. False: stop.
bool ScrapeServer::Serving::Pause(const char* why) {
  log::Once(log::Level::kWarning, "the metrics are not served for a moment", {{"cause", why}});
  connections.clear();
  std::this_thread::sleep_for(kPause);
  eventfd_t stopped = 0;
  return ::eventfd_read(stop.get(), &stopped) != 0;
}

bool ScrapeServer::Serving::Step() {
  try {
    return WaitAndServe();
  } catch (const std::exception& error) {
    return Pause(error.what());
  } catch (...) {
    return Pause("an exception without a message");
  }
}

void ScrapeServer::Serving::MakeRoom() {
  const auto first =
      std::min_element(connections.begin(), connections.end(),
                       [](const Connection& a, const Connection& b) { return a.priority() < b.priority(); });
  if (first != connections.end()) connections.erase(first);
}

void ScrapeServer::Serving::Accept() {
  UniqueFd fd(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.ok()) {
    if (connections.size() >= settings.most) MakeRoom();
    connections.emplace_back(std::move(fd), Clock::now() + settings.patience);
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
    log::Once(log::Level::kWarning, "a scrape of the metrics waits: no file descriptor is left");
    accept_after = Clock::now() + kPause;
  }
}

void ScrapeServer::Serving::Run() {
  while (Step()) {
  }
  connections.clear();
  const std::lock_guard<std::mutex> lock(mutex);
  ended = true;
  changed.notify_all();
}

ScrapeServer::ScrapeServer(std::unique_ptr<Serving> serving) : serving_(std::move(serving)) {}

absl::StatusOr<std::unique_ptr<ScrapeServer>> ScrapeServer::Start(Listener listener, Page page, Settings settings) {
  auto serving = std::make_unique<Serving>(std::move(listener), std::move(page), settings);
  if (!serving->stop.ok()) return ErrnoStatus(errno, "make an eventfd");
  serving->thread = std::thread(&Serving::Run, serving.get());
  return std::unique_ptr<ScrapeServer>(new ScrapeServer(std::move(serving)));
}

bool ScrapeServer::Stop(Clock::time_point until) {
  ::eventfd_write(serving_->stop.get(), 1);
  std::unique_lock<std::mutex> lock(serving_->mutex);
  return serving_->changed.wait_until(lock, until, [this] { return serving_->ended; });
}

ScrapeServer::~ScrapeServer() {
  Stop(Clock::now());
  serving_->thread.join();
}

}  // namespace mooring::metrics
