#include "http/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "http/connection.h"

namespace mooring::http {

// Threads for calls that may block.
class Workers {
 public:
  // Starts a thread when a job finds none that is free, at most `most`. Further jobs wait.
  explicit Workers(std::size_t most) : most_(most) {}
  ~Workers();  // waits for all jobs
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // False: there is no thread, and none can be started. Then the job does not run.
  bool Run(std::function<void()> job);

 private:
  void Work();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::size_t idle_ = 0;  // threads that wait for a job
  bool ended_ = false;
  std::vector<std::thread> threads_;  // used by the thread that calls Run
};

Workers::~Workers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Workers::Run(std::function<void()> job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_ <= jobs_.size() && threads_.size() < most_) {
    try {
      threads_.emplace_back(&Workers::Work, this);
    } catch (const std::system_error&) {  // a limit of processes
      if (threads_.empty()) return false;
    }
  }
  jobs_.push_back(std::move(job));
  changed_.notify_one();
  return true;
}

void Workers::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return ended_ || !jobs_.empty(); });
    --idle_;
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

namespace {

constexpr std::chrono::milliseconds kPause{100};  // after a lack of memory or file descriptors

int MillisecondsUntil(Server::Clock::time_point time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Server::Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

class Server::Loop {
 public:
  Loop(UniqueFd listener, Handler handler, Refuse refuse, Settings settings)
      : settings_(settings),
        handler_(std::move(handler)),
        refuse_(std::move(refuse)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        listener_(std::move(listener)),
        workers_(settings.threads) {}
  ~Loop();

  absl::Status Start();
  bool Stop(Clock::time_point until);

 private:
  void Run();
  void Step();
  void PollOnce();
  void Pause(const char* why);
  bool MayAccept() const;
  void Accept();
  void MakeRoom();
  bool Serve(Connection& connection);  // false: the connection is over
  Response Call(const Request& request) noexcept;
  void TakeAnswers();
  void CloseIdle();
  Clock::time_point NextWakeup() const;
  bool IsStopping();
  void Wake() const { ::eventfd_write(wake_.get(), 1); }

  const Settings settings_;
  const Handler handler_;
  const Refuse refuse_;
  const UniqueFd wake_;

  UniqueFd listener_;                  // these four: used by the thread only
  std::list<Connection> connections_;  // the oldest first
  std::size_t running_ = 0;            // connections whose handler runs
  Clock::time_point accept_after_ = Clock::time_point::min();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<Connection*, Response>> answers_;  // of handlers that have ended
  bool stopping_ = false, ended_ = false;
  std::thread thread_;
  Workers workers_;  // destroyed first: its jobs use the members above
};

absl::Status Server::Loop::Start() {
  if (!wake_.ok()) return ErrnoStatus(errno, "make an eventfd");
  thread_ = std::thread(&Loop::Run, this);
  return absl::OkStatus();
}

Server::Loop::~Loop() {
  if (thread_.joinable()) thread_.join();
}

void Server::Loop::Run() {
  while (!IsStopping() || running_ > 0) Step();
  connections_.clear();
  listener_.reset();
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void Server::Loop::Step() {
  try {
    PollOnce();
  } catch (const std::exception& error) {
    Pause(error.what());
  }
}

void Server::Loop::PollOnce() {
  std::vector<pollfd> waited = {{wake_.get(), POLLIN, 0}, {MayAccept() ? listener_.get() : -1, POLLIN, 0}};
  for (const Connection& connection : connections_) waited.push_back(connection.Waited());
  if (::poll(waited.data(), waited.size(), MillisecondsUntil(NextWakeup())) < 0) {
    if (errno != EINTR) Pause("poll(2) fails");
    return;
  }
  std::size_t index = 2;
  for (auto connection = connections_.begin(); connection != connections_.end(); ++index) {
    const bool goes_on = (waited[index].revents == 0 || Serve(*connection)) && Clock::now() < connection->until();
    connection = goes_on ? std::next(connection) : connections_.erase(connection);
  }
  if (waited[1].revents != 0) Accept();
  if (waited[0].revents != 0) TakeAnswers();
}

// For example without memory: closes all connections whose handler does not run, and waits a moment.
void Server::Loop::Pause(const char* why) {
  log::Once(log::Level::kWarning, "HTTP requests are not served for a moment",
            {{"server", settings_.name}, {"cause", why}});
  CloseIdle();
  std::this_thread::sleep_for(kPause);
  TakeAnswers();
}

Server::Clock::time_point Server::Loop::NextWakeup() const {
  Clock::time_point next = Clock::now() + std::chrono::minutes(1);
  for (const Connection& connection : connections_) next = std::min(next, connection.until());
  if (accept_after_ > Clock::now()) next = std::min(next, accept_after_);
  return next;
}

bool Server::Loop::MayAccept() const {
  return listener_.ok() && Clock::now() >= accept_after_ && running_ < settings_.most;
}

void Server::Loop::Accept() {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.ok()) {
    if (connections_.size() >= settings_.most) MakeRoom();
    connections_.emplace_back(std::move(fd), settings_.patience);
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
    log::Once(log::Level::kWarning, "an HTTP request waits: no file descriptor is left", {{"server", settings_.name}});
    accept_after_ = Clock::now() + kPause;
  }
}

void Server::Loop::MakeRoom() {
  const auto first =
      std::min_element(connections_.begin(), connections_.end(),
                       [](const Connection& a, const Connection& b) { return a.priority() < b.priority(); });
  if (first != connections_.end() && !first->IsRunning()) connections_.erase(first);
}

bool Server::Loop::Serve(Connection& connection) {
  if (!connection.Advance(settings_.limits)) return false;
  std::optional<std::variant<Request, Refusal>> taken = connection.TakeRequest();
  if (!taken) return true;
  if (const auto* refusal = std::get_if<Refusal>(&*taken)) {
    return connection.Answer(refuse_(refusal->status, refusal->words));
  }
  auto& request = std::get<Request>(*taken);
  request.is_abandoned = [&connection] { return connection.IsAbandoned(); };
  request.caller = connection.Caller();
  auto job = [this, &connection, request = std::move(request)] {
    Response response = Call(request);
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_.emplace_back(&connection, std::move(response));
    Wake();
  };
  if (!workers_.Run(std::move(job))) return connection.Answer(refuse_(503, "no thread can be started: try again"));
  connection.BeginCall();
  ++running_;
  return true;
}

Response Server::Loop::Call(const Request& request) noexcept {
  try {
    return handler_(request);
  } catch (const std::exception& error) {
    log::Error("an HTTP request has failed", {{"server", settings_.name}, {"cause", error.what()}});
  } catch (...) {
    log::Error("an HTTP request has failed", {{"server", settings_.name}});
  }
  return refuse_(500, "the request has failed; the log says why");
}

void Server::Loop::TakeAnswers() {
  eventfd_t count = 0;
  ::eventfd_read(wake_.get(), &count);
  std::vector<std::pair<Connection*, Response>> answers;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    answers.swap(answers_);
    if (stopping_) listener_.reset();
  }
  for (const auto& [connection, response] : answers) {
    --running_;
    if (connection->Answer(response)) continue;
    connections_.remove_if([over = connection](const Connection& each) { return &each == over; });
  }
  if (!listener_.ok()) CloseIdle();
}

void Server::Loop::CloseIdle() {
  connections_.remove_if([](const Connection& connection) { return !connection.IsRunning(); });
}

bool Server::Loop::IsStopping() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

bool Server::Loop::Stop(Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  stopping_ = true;
  Wake();
  return changed_.wait_until(lock, until, [this] { return ended_; });
}

Server::Server(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

Server::~Server() { loop_->Stop(Clock::now()); }

bool Server::Stop(Clock::time_point until) { return loop_->Stop(until); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(UniqueFd listener, Handler handler, Refuse refuse,
                                                      Settings settings) {
  auto loop = std::make_unique<Loop>(std::move(listener), std::move(handler), std::move(refuse), settings);
  MOORING_RETURN_IF_ERROR(loop->Start());
  return std::unique_ptr<Server>(new Server(std::move(loop)));
}

}  // namespace mooring::http
