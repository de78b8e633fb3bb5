#include "manager/docker/http_server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/deadline.h"
#include "base/endpoint.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/docker/mount_users.h"
#include "manager/launch/plugin_process.h"

namespace mooring::manager {
namespace {

constexpr char kContentType[] = "application/vnd.docker.plugins.v1.2+json";
constexpr char kFlag[] = "--docker-socket";

// Docker gives up after 2 minutes, and after a minute where nothing is made (moby, daemon/volume/drivers/proxy.go). It
// gets the error before that.
constexpr std::array kLongCalls = {"/VolumeDriver.Create", "/VolumeDriver.Mount"};
constexpr Clock::duration kLongTime = std::chrono::seconds(110), kShortTime = std::chrono::seconds(50);

// Each call that waits for its plugin holds a thread. There are many, so that a plugin that hangs leaves some for the
// others. Docker sends a name, an id and options.
constexpr http::Server::Settings kSettings = {.name = "docker",
                                              .threads = 64,
                                              .most = 256,
                                              .patience = std::chrono::seconds(30),
                                              .limits = {.head = 32 * 1024, .body = 64 * 1024}};

constexpr std::array kPaths = {"/Plugin.Activate",     "/VolumeDriver.Capabilities", "/VolumeDriver.Create",
                               "/VolumeDriver.Remove", "/VolumeDriver.Mount",        "/VolumeDriver.Unmount",
                               "/VolumeDriver.Path",   "/VolumeDriver.Get",          "/VolumeDriver.List"};

std::string ErrorBody(const std::string& words) {
  return nlohmann::json{{"Err", words}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

http::Response Refuse(int status, const std::string& words) {
  return {.status = status, .type = kContentType, .body = ErrorBody(words)};
}

void NameCaller(pid_t pid, DockerCall& call) {
  if (pid == 0) return;
  const absl::StatusOr<ProcessIdentity> process = IdentityOf(pid);
  if (!process.ok()) return;
  call.caller = fmt::format("{} {} {}", process->pid, process->start_time, process->boot);
  call.has_older_user = [engine = *process](const AttachmentRecord& mount) { return HasUserOlderThan(engine, mount); };
}

// An exception (SQLite, out of memory) becomes an error that Docker shows.
std::string Guarded(const DockerHttpServer::Handler& handler, const http::Request& request) {
  const bool is_long = std::find(kLongCalls.begin(), kLongCalls.end(), request.path) != kLongCalls.end();
  DockerCall call = {Clock::now() + (is_long ? kLongTime : kShortTime), request.is_abandoned};
  NameCaller(request.caller, call);
  const DeadlineScope deadline(call.until);  // for the calls below that have no deadline parameter
  try {
    return handler(request.path, request.body, call);
  } catch (const std::exception& error) {
    log::Error("docker", {{"call", request.path}, {"unexpected", error.what()}});
    return ErrorBody(fmt::format("unexpected: {}", error.what()));
  }
}

http::Response AnswerTo(const DockerHttpServer::Handler& handler, const http::Request& request) {
  if (request.method != "POST" || std::find(kPaths.begin(), kPaths.end(), request.path) == kPaths.end()) {
    return Refuse(404, fmt::format("there is no method {}", Quote(request.method + " " + request.path, 80)));
  }
  return {.type = kContentType, .body = Guarded(handler, request)};
}

// Sets the mode before bind(2), so that others cannot connect at any moment.
absl::StatusOr<UniqueFd> Listen(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return ErrnoStatus(errno, "make a socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
  if (::fchmod(fd.get(), 0600) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    return ErrnoStatus(errno, "listen on", path);
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DockerHttpServer>> DockerHttpServer::Start(Handler handler, const std::string& socket) {
  MOORING_ASSIGN_OR_RETURN(const std::string parsed, ParseSocketPath(socket));
  MOORING_ASSIGN_OR_RETURN(const std::string path, NormalisePath("the socket of Docker's volume plugin", parsed));
  std::error_code error;
  std::filesystem::create_directories(std::string(ParentOf(path)), error);
  if (error) return ErrnoStatus(error.value(), "make the directory of the socket", path);
  MOORING_ASSIGN_OR_RETURN(const UniqueFd lock, LockSocketDirectory(path, kFlag));
  MOORING_RETURN_IF_ERROR(ClearSocketPath(path, kFlag));
  MOORING_ASSIGN_OR_RETURN(UniqueFd listener, Listen(path));
  const auto answer = [handler = std::move(handler)](const http::Request& request) {
    return AnswerTo(handler, request);
  };
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<http::Server> server,
                           http::Server::Start(std::move(listener), answer, Refuse, kSettings));
  return std::unique_ptr<DockerHttpServer>(new DockerHttpServer(std::move(server)));
}

absl::Status DockerHttpServer::Stop(Clock::time_point until) {
  if (server_->Stop(until)) return absl::OkStatus();
  return absl::DeadlineExceededError("requests of Docker still run");
}

}  // namespace mooring::manager
