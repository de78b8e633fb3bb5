#include "base/endpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

#include "base/file/file_lock.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

// 0 if a server accepts connections; otherwise the errno of connect(2).
int Knock(const std::string& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return errno;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

}  // namespace

absl::StatusOr<UniqueFd> LockSocketDirectory(const std::string& socket_path, std::string_view flag,
                                             std::chrono::milliseconds patience) {
  const std::string directory(ParentOf(socket_path));
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "use the socket's directory", directory);
  const absl::Status locked = LockFile(fd, directory, patience);
  if (absl::IsAborted(locked)) {
    return FailedPrecondition(
        "another process holds a lock on the socket's directory {} (lslocks names it): end that first, or choose "
        "another {}",
        Quote(directory), flag);
  }
  MOORING_RETURN_IF_ERROR(locked);
  return fd;
}

absl::StatusOr<bool> IsStaleSocket(const std::string& path, std::string_view advice) {
  const std::string parent(ParentOf(path));
  struct stat status = {};
  if (::stat(parent.c_str(), &status) != 0) return ErrnoStatus(errno, "use the socket's directory", parent);
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    return ErrnoStatus(errno, "look at", path);
  }
  if (!S_ISSOCK(status.st_mode)) {
    return FailedPrecondition("{} exists and is not a socket: it is not replaced", Quote(path));
  }
  const int error = Knock(path);
  if (error == ENOENT) return false;
  if (error == ECONNREFUSED) return true;
  if (error == EACCES || error == EPERM) {  // these do not tell whether the socket is served
    return FailedPrecondition(
        "{}: it belongs to user {}, and this process runs as user {}: remove it if no process serves it",
        Message(ErrnoStatus(error, "connect to", path)), status.st_uid, ::geteuid());
  }
  return FailedPrecondition("{} is served by another process: {}", Quote(path), advice);
}

absl::Status ClearSocketPath(const std::string& path, std::string_view flag) {
  MOORING_ASSIGN_OR_RETURN(const bool stale,
                           IsStaleSocket(path, fmt::format("end that first, or choose another {}", flag)));
  return !stale || ::unlink(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus()
                                                                  : ErrnoStatus(errno, "remove the stale socket", path);
}

}  // namespace mooring
