#include "plugin/process/listen.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/endpoint.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/helper/helper_server.h"
#include "plugin/process/confinement.h"
#include "rpc/server_limits.h"

namespace mooring {
namespace {

// gRPC would say that it failed, and not why.
absl::Status CheckMayBind(const UniqueFd& directory, const std::string& path) {
  if (::faccessat(directory.get(), ".", W_OK | X_OK, AT_EACCESS) == 0) return absl::OkStatus();
  const int error = errno;
  struct stat status = {};
  ::fstat(directory.get(), &status);
  const std::string what =
      fmt::format("make the socket in the directory {} (owner {}:{}, mode {:o}): {}", Quote(path), status.st_uid,
                  status.st_gid, status.st_mode & 07777, std::generic_category().message(error));
  if (error == EROFS) return FailedPrecondition(what + ": give --endpoint a directory that can be written to");
  return FailedPrecondition(fmt::format(
      "{}: the plugin serves as user {}:{} without capabilities: make the directory writable for that user, or choose "
      "another --endpoint",
      what, ::geteuid(), ::getegid()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::Server>> Listen(const Config& config, grpc::ServerBuilder& builder) {
  const std::string& socket_path = config.socket_path;
  MOORING_ASSIGN_OR_RETURN(const UniqueFd alone, LockSocketDirectory(socket_path, "--endpoint"));
  MOORING_RETURN_IF_ERROR(CheckMayBind(alone, std::string(ParentOf(socket_path))));
  MOORING_RETURN_IF_ERROR(ClearSocketPath(socket_path, "--endpoint"));
  // That had to ask who serves there. From the first request on nobody is connected to.
  if (config.mounter == MounterKind::kHelper) MOORING_RETURN_IF_ERROR(ConfineServer());
  LimitServer(builder, "mooring", kMostCalls);
  int bound = 0;
  builder.AddListeningPort(GrpcTarget(socket_path), grpc::InsecureServerCredentials(), &bound);
  const mode_t before = ::umask(0117);  // for its owner and group alone
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ::umask(before);
  if (server == nullptr || bound == 0) return Internal(fmt::format("cannot listen on {}", Quote(socket_path)));
  return server;
}

}  // namespace mooring
