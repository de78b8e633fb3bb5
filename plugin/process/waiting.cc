#include "plugin/process/waiting.h"

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
                     [ability](const PoolConfig& pool) { return TraitsOf(pool.kind).*ability; });
}

// Returns only why it cannot.
absl::Status ServeWhyNot(const Config& config, const absl::Status& why, const UniqueFd& parent) {
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
  ::_exit(1);  // the server would clean up at a path that is the next plugin's by then
}

// The child that answers meanwhile. It ends with its object, and with its parent: as soon as nobody has the other end
// of a pipe. (A signal at the parent's death would be forgotten where the child becomes another user, and without
// CAP_KILL be sent to nobody else's process.)
class Spokesman {
 public:
  Spokesman(const Config& config, const absl::Status& why) : config_(config) {
    std::array<int, 2> ends = {-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    const UniqueFd parent(ends[0]);
    held_.reset(ends[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    held_.reset();
    ::prctl(PR_SET_NAME, "mooring-waiting");
    const absl::Status failed = ServeWhyNot(config, why, parent);
    fmt::print(stderr, "mooring-plugin: {}\n", Message(failed));
    ::_exit(1);
  }
  Spokesman(const Spokesman&) = delete;
  Spokesman& operator=(const Spokesman&) = delete;
  ~Spokesman() {
    if (ended_ || pid_ < 0) return;
    held_.reset();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ClearSocketPath(config_.socket_path, "--endpoint").IgnoreError();
  }

  absl::Status Health() {
    if (pid_ < 0) return ErrnoStatus(EAGAIN, "start a process that answers meanwhile");
    ended_ = ended_ || ::waitpid(pid_, nullptr, WNOHANG) == pid_;
    return ended_ ? absl::UnknownError("it has said itself why it cannot serve") : absl::OkStatus();
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
    log::Error("cannot begin: something is missing that the plugin needs", {{"cause", Message(why)}});
    Spokesman spokesman(config, why);
    for (const absl::Status before = why; why == before; why = prepare()) {
      if (::sigtimedwait(&signals, nullptr, &kLookAgain) > 0) return absl::CancelledError("stopped while waiting");
      MOORING_RETURN_IF_ERROR(spokesman.Health());
    }
  }
  if (why.ok()) log::Info("nothing is missing any more");
  return why;
}

}  // namespace mooring
