#include "plugin/waiting.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <string>

#include "base/endpoint.h"
#include "base/log.h"
#include "base/path.h"
#include "base/status.h"
#include "plugin/confinement.h"
#include "plugin/identity_service.h"
#include "plugin/listen.h"
#include "plugin/readiness.h"
#include "plugin/rpc.h"
#include "plugin/unknown_calls.h"

namespace mooring {
namespace {

constexpr timespec kLookAgain{.tv_sec = 1, .tv_nsec = 0};

bool AnyPoolCan(const Config& config, bool BackendTraits::*ability) {
  return std::any_of(config.pools.begin(), config.pools.end(),
                     [ability](const PoolConfig& pool) { return TraitsOf(pool.kind).*ability; });
}

absl::Status ServeWhyNot(const Config& config, const absl::Status& why) {
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
  server->Wait();  // until the parent ends this process
  return absl::OkStatus();
}

// The child that answers meanwhile. It ends with its object, and with its parent.
class Spokesman {
 public:
  Spokesman(const Config& config, const absl::Status& why) : config_(config) {
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_NAME, "mooring-waiting");
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    const absl::Status served = ServeWhyNot(config, why);
    if (!served.ok()) fmt::print(stderr, "mooring-plugin: {}\n", Message(served));
    ::_exit(1);
  }
  Spokesman(const Spokesman&) = delete;
  Spokesman& operator=(const Spokesman&) = delete;
  ~Spokesman() {
    if (ended_ || pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ClearSocketPath(config_.socket_path, "--endpoint").IgnoreError();
  }

  absl::Status Health() {
    if (pid_ < 0) return ErrnoStatus(EAGAIN, "fork");
    ended_ = ended_ || ::waitpid(pid_, nullptr, WNOHANG) == pid_;
    return ended_ ? absl::UnknownError("it has said itself why it cannot serve") : absl::OkStatus();
  }

 private:
  const Config& config_;
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
