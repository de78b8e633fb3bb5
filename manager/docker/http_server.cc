#include "manager/docker/http_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/deadline.h"
#include "base/endpoint.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/docker/bounded_stream.h"

namespace mooring::manager {
namespace {

constexpr char kContentType[] = "application/vnd.docker.plugins.v1.2+json";
constexpr std::size_t kLargestBody = 64 * 1024;  // Docker sends a name, an id and options
constexpr std::size_t kLargestHead = 32 * 1024;  // request line and header fields
constexpr int kTooLarge = 413, kNotFound = 404;

// Docker gives up after 2 minutes; it gets the error before that.
constexpr Clock::duration kCallTime = std::chrono::seconds(110);

// Each call that waits for its plugin holds a thread, and so does each kept-alive connection. There are many, so that a
// plugin that hangs leaves some for the others.
constexpr std::size_t kThreads = 64;

constexpr std::array kPaths = {"/Plugin.Activate",     "/VolumeDriver.Capabilities", "/VolumeDriver.Create",
                               "/VolumeDriver.Remove", "/VolumeDriver.Mount",        "/VolumeDriver.Unmount",
                               "/VolumeDriver.Path",   "/VolumeDriver.Get",          "/VolumeDriver.List"};

// An exception (SQLite, out of memory) becomes an error that Docker shows.
std::string Guarded(const DockerHttpServer::Handler& handler, const std::string& method, const std::string& body) {
  const Clock::time_point until = Clock::now() + kCallTime;
  const DeadlineScope deadline(until);  // for the calls below that have no deadline parameter
  try {
    return handler(method, body, until);
  } catch (const std::exception& error) {
    log::Error("docker", {{"call", method}, {"unexpected", error.what()}});
    return nlohmann::json{{"Err", fmt::format("unexpected: {}", error.what())}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

// Counts the running requests.
class CallCount {
 public:
  void Begin() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
  }
  void End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --count_;
    changed_.notify_all();
  }
  bool WaitUntilNone(Clock::time_point until) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_until(lock, until, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

// Whether the request of this thread was read to its end and answered by a method. Otherwise its connection is closed,
// so that the rest of its body is not taken for the next request.
thread_local bool served = false;

// httplib::Server with a longer queue for accept(2) than its five connections, and with a limit for each connection.
class BoundedServer : public httplib::Server {
 public:
  bool BindTo(const std::string& path) {
    // The port of a unix socket is ignored, but with 0 httplib would look it up.
    return bind_to_port(path, 1) && ::listen(svr_sock_, SOMAXCONN) == 0 && ::fcntl(svr_sock_, F_SETFD, FD_CLOEXEC) == 0;
  }

 private:
  bool process_and_close_socket(socket_t connection) override {
    const UniqueFd closed(connection);
    BoundedStream stream(connection, {.head = kLargestHead, .body = 2 * kLargestBody});
    bool goes_on = true;
    for (std::size_t left = keep_alive_max_count_; goes_on && left > 0 && svr_sock_ >= 0; --left) {
      bool hung_up = false;
      served = false;
      goes_on = stream.BeginRequest() && process_request(stream, left == 1, hung_up, nullptr) && !hung_up && served;
    }
    stream.Drain();
    return goes_on;
  }
};

// False: the body is too long, or ended early. It is read piece by piece, because httplib would first collect the whole
// of a body without a length.
bool ReadBody(const httplib::Request& request, const httplib::ContentReader& read, std::string& body) {
  if (request.is_multipart_form_data()) return false;
  return read([&](const char* data, std::size_t size) {
    if (body.size() + size > kLargestBody) return false;
    body.append(data, size);
    return true;
  });
}

void Refuse(httplib::Response& response, int status, const std::string& words) {
  response.status = status;
  response.set_header("Connection", "close");
  response.set_content(nlohmann::json{{"Err", words}}.dump(), kContentType);
}

void RefuseBody(httplib::Response& response) {
  Refuse(response, kTooLarge,
         fmt::format(
             "the request is refused: its body is longer than {} bytes or incomplete; use fewer or shorter options",
             kLargestBody));
}

// Answers other paths and HTTP methods with 404, without reading bodies.
void RefuseOthers(httplib::Server& server) {
  const auto refuse_path = [](const httplib::Request& request, httplib::Response& response) {
    Refuse(response, kNotFound, fmt::format("there is no method {}", Quote(request.path, 64)));
  };
  const auto refuse = [refuse_path](const httplib::Request& request, httplib::Response& response,
                                    const httplib::ContentReader&) { refuse_path(request, response); };
  server.Get(".*", refuse_path);  // and HEAD
  server.Options(".*", refuse_path);
  server.Post(".*", refuse);
  server.Put(".*", refuse);
  server.Patch(".*", refuse);
  server.Delete(".*", refuse);
}

}  // namespace

struct DockerHttpServer::Serving {
  BoundedServer server;
  CallCount calls;
  std::atomic<bool> ended = false;
  std::atomic<bool> stopped = false;
  std::thread thread;
};

DockerHttpServer::DockerHttpServer(std::unique_ptr<Serving> serving) : serving_(std::move(serving)) {}

absl::StatusOr<std::unique_ptr<DockerHttpServer>> DockerHttpServer::Start(Handler handler, const std::string& socket) {
  MOORING_ASSIGN_OR_RETURN(const std::string parsed, ParseSocketPath(socket));
  MOORING_ASSIGN_OR_RETURN(const std::string path, NormalisePath("the socket of Docker's volume plugin", parsed));
  std::error_code error;
  std::filesystem::create_directories(std::string(ParentOf(path)), error);
  if (error) return ErrnoStatus(error.value(), "make the directory of the socket", path);
  MOORING_ASSIGN_OR_RETURN(const UniqueFd lock, LockSocketDirectory(path, "--docker-socket"));
  MOORING_RETURN_IF_ERROR(ClearSocketPath(path, "--docker-socket"));

  auto serving = std::make_unique<Serving>();
  BoundedServer& server = serving->server;
  server.set_address_family(AF_UNIX);
  server.set_payload_max_length(kLargestBody);
  // Sets the mode before bind(2), so that others cannot connect at any moment.
  server.set_socket_options([](socket_t fd) { ::fchmod(fd, 0600); });
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };  // the server deletes it
  for (const char* method : kPaths) {
    server.Post(method,
                [handler, method, &calls = serving->calls](const httplib::Request& request, httplib::Response& response,
                                                           const httplib::ContentReader& read) {
                  calls.Begin();
                  const absl::Cleanup end = [&] { calls.End(); };
                  std::string body;
                  if (!ReadBody(request, read, body)) return RefuseBody(response);
                  served = true;
                  response.set_content(Guarded(handler, method, body), kContentType);
                });
  }
  RefuseOthers(server);
  if (!server.BindTo(path)) return Internal("cannot listen on {}", Quote(path));
  serving->thread = std::thread([&server, &ended = serving->ended] {
    server.listen_after_bind();
    ended = true;
  });
  // A stop before the server runs would be lost, and httplib has no other way to wait for it.
  while (!server.is_running() && !serving->ended) std::this_thread::yield();
  return std::unique_ptr<DockerHttpServer>(new DockerHttpServer(std::move(serving)));
}

DockerHttpServer::~DockerHttpServer() {
  (void)Stop(Clock::now());
  if (serving_->thread.joinable()) serving_->thread.join();
}

absl::Status DockerHttpServer::Stop(Clock::time_point until) {
  if (!serving_->stopped.exchange(true)) serving_->server.stop();
  if (serving_->calls.WaitUntilNone(until)) return absl::OkStatus();
  return absl::DeadlineExceededError("requests of Docker still run");
}

}  // namespace mooring::manager
