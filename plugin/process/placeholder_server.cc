#include "plugin/process/placeholder_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <memory>
#include <string>

#include "base/endpoint.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/status.h"
#include "plugin/api/identity_service.h"
#include "plugin/api/readiness.h"
#include "plugin/api/rpc.h"
#include "plugin/api/unknown_calls.h"
#include "plugin/backends/registry.h"
#include "plugin/process/confinement.h"
#include "plugin/process/listen.h"

namespace mooring {
namespace {

constexpr timespec kLookAgain{.tv_sec = 1, .tv_nsec = 0};

bool AnyPoolCan(const Config& config, bool BackendTraits::*ability) {
  return std::any_of(config.pools.begin(), config.pools.end(),
                     [ability](const PoolConfig& pool) { return TraitsOf(pool).*ability; });
}

// Returns only if it cannot serve.
absl::Status ServeReason(const Config& config, const absl::Status& why, const UniqueFd& parent) {
  if (config.mounter == MounterKind::kHelper) {
    MOORING_RETURN_IF_ERROR(
        Confine({.state_dir = "", .socket_directory = std::string(ParentOf(config.socket_path))}, config.user));
  }
  Readiness readiness;
  readiness.Set(WithCode(absl::StatusCode::kFailedPrecondition, why));
  Rpc rpc(readiness);
  IdentityService identity(
      {config.driver_name, config.serves_controller(), AnyPoolCan(config, &BackendTraits::grows),
       AnyPoolCan(config, &BackendTraits::snapshots)},
      readiness, [] { return absl::OkStatus(); }, rpc);
  UnknownCalls others(grpc::StatusCode::UNAVAILABLE, "is not served yet: " + Message(why));
  grpc::ServerBuilder builder;
  builder.RegisterService(&identity);
  builder.RegisterCallbackGenericService(&others);
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<grpc::Server> server, Listen(config, builder));
  char none = 0;
  while (::read(parent.get(), &none, 1) < 0 && errno == EINTR) {
  }
  ::_exit(1);  // without destructors: the server would delete a socket that may be the next plugin's by then
}

// The child process that serves the socket meanwhile. It ends with this object. It also ends with its parent, when the
// other end of a pipe is closed. PR_SET_PDEATHSIG does not do: prctl(2) clears it when the child changes its user, and
// without CAP_KILL the parent cannot signal a process of another user.
class PlaceholderServer {
 public:
  PlaceholderServer(const Config& config, const absl::Status& why) : config_(config) {
    std::array<int, 2> ends = {-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    const UniqueFd parent(ends[0]);
    held_.reset(ends[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    held_.reset();
    ::prctl(PR_SET_NAME, "mooring-waiting");
    const absl::Status failed = ServeReason(config, why, parent);
    fmt::print(stderr, "mooring-plugin: {}\n", Message(failed));
    ::_exit(1);
  }
  PlaceholderServer(const PlaceholderServer&) = delete;
  PlaceholderServer& operator=(const PlaceholderServer&) = delete;
  ~PlaceholderServer() {
    if (ended_ || pid_ < 0) return;
    held_.reset();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ClearSocketPath(config_.socket_path, "--endpoint").IgnoreError();
  }

  absl::Status Health() {
    if (pid_ < 0) return ErrnoStatus(EAGAIN, "start a process that serves the socket meanwhile");
    ended_ = ended_ || ::waitpid(pid_, nullptr, WNOHANG) == pid_;
    return ended_ ? absl::UnknownError("the placeholder server has printed why it cannot serve") : absl::OkStatus();
  }

 private:
  const Config& config_;
  UniqueFd held_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

}  // namespace

absl::Status WaitUntilPrepared(const Config& config, const sigset_t& signals, absl::Status why,
                               const std::function<absl::Status()>& prepare) {
  while (!why.ok() && !absl::IsInvalidArgument(why)) {
    log::Error("cannot start: something is missing that the plugin needs", {{"cause", Message(why)}});
    PlaceholderServer placeholder(config, why);
    for (const absl::Status before = why; why == before; why = prepare()) {
      if (::sigtimedwait(&signals, nullptr, &kLookAgain) > 0) return absl::CancelledError("stopped while waiting");
      MOORING_RETURN_IF_ERROR(placeholder.Health());
    }
  }
  if (why.ok()) log::Info("nothing is missing any more");
  return why;
}

}  // namespace mooring
