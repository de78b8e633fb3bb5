#include "plugin/process/listen.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/endpoint.h"
#include "base/file/directory.h"
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

bool MayWrite(const struct stat& status, const RunAs& user) {
  constexpr mode_t kWriteAndPass = S_IWOTH | S_IXOTH;
  const unsigned shift = status.st_uid == user.uid ? 6 : status.st_gid == user.gid ? 3 : 0;
  return ((status.st_mode >> shift) & kWriteAndPass) == kWriteAndPass;
}

bool IsSharedBySystem(const std::string& path) { return path == "/" || path == "/run" || path == "/tmp"; }

absl::Status GiveSocketDirectory(const UniqueFd& directory, const std::string& path, const RunAs& user) {
  struct stat status = {};
  if (::fstat(directory.get(), &status) != 0) return ErrnoStatus(errno, "inspect the socket's directory", path);
  if (status.st_uid != 0 || MayWrite(status, user)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(path));
  if (!names.empty() || IsSharedBySystem(path)) {
    return FailedPrecondition(
        "user {}:{} may not make a socket in {}, which is root's and holds more than that: give --endpoint a directory "
        "of its own, or one that this user may write in",
        user.uid, user.gid, Quote(path));
  }
  // A root without capabilities can then reach the socket by its group. Another group gets no more than it had.
  const mode_t mode = (status.st_mode & 07777) | S_ISGID | S_IRWXU | (status.st_gid == 0 ? S_IRWXG : 0);
  if (::fchmod(directory.get(), mode) == 0 && ::fchown(directory.get(), user.uid, static_cast<gid_t>(-1)) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, fmt::format("give the socket's directory to user {}:", user.uid), path);
}

absl::Status TryToPrepareSocketDirectory(const Config& config) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd directory, LockSocketDirectory(config.socket_path, "--endpoint"));
  MOORING_RETURN_IF_ERROR(ClearSocketPath(config.socket_path, "--endpoint"));
  if (::geteuid() != 0 || config.user.is_root()) return absl::OkStatus();
  return GiveSocketDirectory(directory, std::string(ParentOf(config.socket_path)), config.user);
}

// gRPC reports only that it failed, not the reason.
absl::Status CheckMayBind(const UniqueFd& directory, const std::string& path) {
  if (::faccessat(directory.get(), ".", W_OK | X_OK, AT_EACCESS) == 0) return absl::OkStatus();
  const int error = errno;
  struct stat status = {};
  ::fstat(directory.get(), &status);
  const std::string what =
      fmt::format("make the socket in the directory {} (owner {}:{}, mode {:o}): {}", Quote(path), status.st_uid,
                  status.st_gid, status.st_mode & 07777, std::generic_category().message(error));
  if (error == EROFS) return FailedPrecondition(what + ": give --endpoint a directory that can be written to");
  return FailedPrecondition(
      "{}: the plugin serves as user {}:{} without capabilities: make the directory writable for that user, or choose "
      "another --endpoint",
      what, ::geteuid(), ::getegid());
}

}  // namespace

// The placeholder server of a plugin that was just killed may still end (plugin/process/placeholder_server.h).
absl::Status PrepareSocketDirectory(const Config& config) {
  constexpr std::chrono::milliseconds kPatience{300}, kPause{20};
  for (const auto deadline = std::chrono::steady_clock::now() + kPatience;;) {
    const absl::Status prepared = TryToPrepareSocketDirectory(config);
    if (!absl::IsFailedPrecondition(prepared) || std::chrono::steady_clock::now() >= deadline) return prepared;
    std::this_thread::sleep_for(kPause);
  }
}

absl::StatusOr<std::unique_ptr<grpc::Server>> Listen(const Config& config, grpc::ServerBuilder& builder) {
  const std::string& socket_path = config.socket_path;
  MOORING_ASSIGN_OR_RETURN(const UniqueFd alone, LockSocketDirectory(socket_path, "--endpoint"));
  MOORING_RETURN_IF_ERROR(CheckMayBind(alone, std::string(ParentOf(socket_path))));
  MOORING_RETURN_IF_ERROR(ClearSocketPath(socket_path, "--endpoint"));
  // ClearSocketPath had to connect to the socket. From here on the server makes no connections.
  if (config.mounter == MounterKind::kHelper) MOORING_RETURN_IF_ERROR(ConfineServer());
  MOORING_RETURN_IF_ERROR(CheckThreadsForGrpc());
  LimitServer(builder, "mooring", kMostCalls);
  int bound = 0;
  builder.AddListeningPort(GrpcTarget(socket_path), grpc::InsecureServerCredentials(), &bound);
  const mode_t before = ::umask(0117);  // for its owner and group alone
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ::umask(before);
  if (server == nullptr || bound == 0) return Internal("cannot listen on {}", Quote(socket_path));
  return server;
}

}  // namespace mooring
