#include "manager/process/server.h"

#include <fmt/format.h>
#include <grp.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/endpoint.h"
#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/version.h"
#include "manager/api/manager_service.h"
#include "manager/docker/http_server.h"
#include "manager/docker/volume_driver.h"
#include "metrics/scrape_server.h"
#include "rpc/server_limits.h"

namespace mooring::manager {
namespace {

absl::StatusOr<gid_t> FindGroup(const std::string& name) {
  std::vector<char> buffer(1 << 16);
  struct group entry = {};
  struct group* found = nullptr;
  const int error = ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found != nullptr) return found->gr_gid;
  if (error != 0) return ErrnoStatus(error, "look up the group", name);
  return FailedPrecondition(
      "--group {}: there is no such group; create it (groupadd --system {}) or leave the flag out", Quote(name), name);
}

// Binds without listening: nobody can connect before the mode is set.
absl::StatusOr<UniqueFd> BindTo(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return ErrnoStatus(errno, "make a socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus(errno, "bind a socket to", path);
  }
  return fd;
}

absl::Status Restrict(const std::string& path, const std::string& group) {
  if (::chmod(path.c_str(), 0600) != 0) return ErrnoStatus(errno, "set the mode of", path);
  if (group.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const gid_t gid, FindGroup(group));
  if (::chown(path.c_str(), static_cast<uid_t>(-1), gid) != 0) return ErrnoStatus(errno, "give to its group", path);
  return ::chmod(path.c_str(), 0660) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "set the mode of", path);
}

constexpr int kMostCalls = 512;  // calls and streams at a time; more are RESOURCE_EXHAUSTED
constexpr std::chrono::milliseconds kLastAnswers{500};
constexpr std::chrono::milliseconds kNoFiles{100};  // before accept(2) is repeated when the process has no fd left

std::unique_ptr<grpc::Server> MakeServer(grpc::Service& service) {
  grpc::ServerBuilder builder;
  LimitServer(builder, "mooring-manager", kMostCalls);
  builder.RegisterService(&service);
  return builder.BuildAndStart();
}

// True: a client can be accepted. False: the server is to stop.
bool WaitForCaller(int listening, int stop) {
  pollfd fds[] = {{listening, POLLIN, 0}, {stop, POLLIN, 0}};
  while (::poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  return fds[1].revents == 0;
}

absl::StatusOr<ListeningSocket> SocketOf(const Config& config, std::optional<ListeningSocket> passed) {
  if (!passed) return ListeningSocket::Bind(config.socket_path, config.group);
  log::Info("serving the socket that systemd passed");
  if (!config.group.empty()) {
    log::Warning(
        "--group is ignored, because systemd made the socket: set SocketMode=0660 and SocketGroup= in its unit",
        {{"group", config.group}});
  }
  return *std::move(passed);
}

std::unique_ptr<ManagerService> MakeService(Components& of) {
  const std::string& host = of.config.host;
  ApiHandlers handlers = {
      .plugins = {.plugins = *of.plugins, .supervisor = *of.supervisor, .events = of.events},
      .volumes = {.volumes = *of.volumes,
                  .claims = *of.claims,
                  .journal = *of.journal,
                  .store = of.store,
                  .state = of.shared,
                  .host = host},
      .snapshots = {.snapshots = *of.snapshots},
      .claims = {.claims = *of.claims,
                 .attachments = *of.attachments,
                 .journal = *of.journal,
                 .store = of.store,
                 .state = of.shared,
                 .host = host},
      .attachments = {.attachments = *of.attachments, .journal = *of.journal, .store = of.store},
      .hosts = {.hosts = of.cluster->hosts(),
                .store = of.store,
                .recover = [&of](const std::string& name,
                                 Clock::time_point until) { return of.cluster->RecoverNow(name, until); }},
      .streams = {.events = of.events, .state = of.shared, .host = host},
      .info = {.attachments = *of.attachments, .work = of.work, .host = host, .root = of.config.root}};
  return MakeManagerService(std::move(handlers), of.counters ? &of.counters->api() : nullptr);
}

void Pause(int stop) {
  pollfd fd = {stop, POLLIN, 0};
  ::poll(&fd, 1, static_cast<int>(kNoFiles.count()));
}

}  // namespace

absl::StatusOr<ListeningSocket> ListeningSocket::Bind(const std::string& path, const std::string& group) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd alone, LockSocketDirectory(path, "--socket"));
  MOORING_RETURN_IF_ERROR(ClearSocketPath(path, "--socket"));
  MOORING_ASSIGN_OR_RETURN(UniqueFd fd, BindTo(path));
  ListeningSocket socket(std::move(fd), path);  // removes its file on failure
  MOORING_RETURN_IF_ERROR(Restrict(path, group));
  if (::listen(socket.fd(), SOMAXCONN) != 0) return ErrnoStatus(errno, "listen on", path);
  return socket;
}

absl::StatusOr<std::optional<ListeningSocket>> ListeningSocket::Inherit() {
  constexpr int kUnsetEnvironment = 1;  // so that plugins do not inherit LISTEN_FDS
  const int passed = ::sd_listen_fds(kUnsetEnvironment);
  if (passed < 0) return ErrnoStatus(-passed, "take the sockets that systemd passes");
  if (passed == 0) return std::nullopt;
  UniqueFd fd(SD_LISTEN_FDS_START);
  if (passed > 1 || ::sd_is_socket_unix(fd.get(), SOCK_STREAM, 1, nullptr, 0) <= 0) {
    return FailedPrecondition(
        "systemd passes {} sockets, but the manager needs exactly one stream socket on a path (ListenStream= in "
        "mooring-manager.socket)",
        passed);
  }
  return ListeningSocket(std::move(fd), "");
}

ListeningSocket::~ListeningSocket() {
  if (fd_.ok() && !path_.empty()) ::unlink(path_.c_str());
}

// gRPC gets connections, not the socket. So a socket of systemd and one of ours are served alike, and the mode of ours
// is set before anybody can connect.
struct Server::Serving {
  Serving(Manager& of, ListeningSocket&& listening)
      : manager(of),
        service(MakeService(of.components())),
        socket(std::move(listening)),
        stop(::eventfd(0, EFD_CLOEXEC)) {}

  absl::Status ServeDocker(Components& of);
  absl::Status ServeMetrics(std::optional<metrics::Listener> listener);
  void Accept();
  void End();

  Manager& manager;
  std::unique_ptr<ManagerService> service;
  ListeningSocket socket;
  UniqueFd stop;  // an eventfd
  std::unique_ptr<grpc::Server> server;
  std::thread acceptor;
  std::unique_ptr<DockerVolumeDriver> driver;
  std::unique_ptr<DockerHttpServer> docker;        // null: no --docker-socket
  std::unique_ptr<metrics::ScrapeServer> scrapes;  // null: no --metrics-listen
};

absl::Status Server::Serving::ServeDocker(Components& of) {
  const Config& config = of.config;
  if (config.docker_socket.empty()) return absl::OkStatus();
  const DockerVolumeDriver::Collaborators with = {.plugins = *of.plugins,
                                                  .volumes = *of.volumes,
                                                  .attachments = *of.attachments,
                                                  .journal = *of.journal,
                                                  .store = of.store,
                                                  .state = *of.local};
  driver = std::make_unique<DockerVolumeDriver>(
      with, DockerVolumeDriver::Settings{.host = config.host,
                                         .state_dir = config.state_dir,
                                         .boot = of.boot,
                                         .default_plugin = config.docker_plugin,
                                         .recorder = of.counters ? &of.counters->docker() : nullptr});
  const auto handler = [this](const std::string& method, const std::string& body, const DockerCall& call) {
    return driver->Handle(method, body, call);
  };
  absl::StatusOr<std::unique_ptr<DockerHttpServer>> started = DockerHttpServer::Start(handler, config.docker_socket);
  if (!started.ok()) return Annotate(started.status(), "--docker-socket");
  docker = *std::move(started);
  log::Info("serving Docker's volume plugin", {{"socket", config.docker_socket}});
  return absl::OkStatus();
}

absl::Status Server::Serving::ServeMetrics(std::optional<metrics::Listener> listener) {
  if (!listener) return absl::OkStatus();
  log::Info("serving metrics", {{"address", metrics::ToString(listener->address)}});
  const auto page = [this] { return manager.components().metrics->Text(); };
  MOORING_ASSIGN_OR_RETURN(scrapes, metrics::ScrapeServer::Start(*std::move(listener), page, {}));
  return absl::OkStatus();
}

void Server::Serving::Accept() {
  while (WaitForCaller(socket.fd(), stop.get())) {
    const int connection = ::accept4(socket.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection >= 0) {
      grpc::AddInsecureChannelFromFd(server.get(), connection);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      log::Once(log::Level::kWarning, "no file descriptor is left, so new connections wait");
      Pause(stop.get());
    }
  }
}

// Answers get kLastAnswers to leave. A client that does not read would otherwise keep the server waiting.
void Server::Serving::End() {
  if (!acceptor.joinable()) return;
  ::eventfd_write(stop.get(), 1);
  acceptor.join();
  server->Shutdown(std::chrono::system_clock::now() + kLastAnswers);
  server->Wait();
}

Server::Server(std::unique_ptr<Serving> serving) : serving_(std::move(serving)) {}

Server::~Server() {
  Stop(std::chrono::seconds(0)).IgnoreError();
  serving_->End();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Manager& manager, std::optional<ListeningSocket> passed,
                                                      std::optional<metrics::Listener> metrics) {
  const Config& config = manager.components().config;
  MOORING_ASSIGN_OR_RETURN(ListeningSocket socket, SocketOf(config, std::move(passed)));
  auto serving = std::make_unique<Serving>(manager, std::move(socket));
  if (!serving->stop.ok()) return ErrnoStatus(errno, "make an eventfd");
  MOORING_RETURN_IF_ERROR(CheckThreadsForGrpc());
  serving->server = MakeServer(*serving->service);
  if (serving->server == nullptr) return Internal("cannot start the server of the API");
  MOORING_RETURN_IF_ERROR(serving->ServeDocker(manager.components()));
  MOORING_RETURN_IF_ERROR(serving->ServeMetrics(std::move(metrics)));
  serving->acceptor = std::thread(&Serving::Accept, serving.get());
  log::Info("serving", {{"version", Version()},
                        {"host", config.host},
                        {"socket", config.socket_path},
                        {"state", config.state_dir},
                        {"root", config.root}});
  return std::unique_ptr<Server>(new Server(std::move(serving)));
}

absl::Status Server::Stop(std::chrono::seconds patience) {
  const Clock::time_point until = Clock::now() + patience;
  serving_->manager.BeginStop();
  DockerHttpServer* const docker = serving_->docker.get();
  if (docker != nullptr)
    docker->Stop(Clock::now()).IgnoreError();  // refuses new requests while the calls of the API end
  std::vector<std::string> left = serving_->service->Drain(until);
  if (docker != nullptr && !docker->Stop(until).ok()) left.emplace_back("requests of Docker");
  metrics::ScrapeServer* const scrapes = serving_->scrapes.get();
  if (scrapes != nullptr && !scrapes->Stop(Clock::now() + kLastAnswers)) left.emplace_back("a scrape");
  if (!left.empty()) {
    return absl::DeadlineExceededError(
        fmt::format("still under way after {} s: {}", patience.count(), fmt::join(left, ", ")));
  }
  serving_->End();
  return absl::OkStatus();
}

}  // namespace mooring::manager
