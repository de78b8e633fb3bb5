#include "cli/client/socket_problem.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::cli {
namespace {

int ConnectError(const std::string& socket_path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_path.data(), std::min(socket_path.size(), sizeof(address.sun_path) - 1));
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return errno;
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

bool IsSocket(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

bool MayBeServed(const std::string& path) {
  const int error = ConnectError(path);
  return error == EACCES || error == EAGAIN;
}

bool MayComeUp(const std::string& path) {
  const int error = ConnectError(path);
  return error == 0 || error == ENOENT || error == EAGAIN || (error == ECONNREFUSED && IsSocket(path));
}

std::string SocketProblem(const std::string& path, const ServerDescription& server) {
  switch (const int error = ConnectError(path)) {
    case 0:
      return "";
    case ENOENT:
      return fmt::format("there is no socket at {}: {}, or name its socket with {}", Quote(path), server.start,
                         server.flag);
    case ECONNREFUSED:
      if (!IsSocket(path)) {
        return fmt::format("{} is not a socket: name the socket of the {} with {}", Quote(path), server.name,
                           server.flag);
      }
      return fmt::format("no process serves the socket {}: the {} that created it has ended, start it again",
                         Quote(path), server.name);
    case EACCES:
      return fmt::format("this user may not open the socket {}: try again {}", Quote(path), server.user);
    case EAGAIN:
      return fmt::format("the {} does not answer at {}: its queue of connections is full", server.name, Quote(path));
    default:
      return ErrnoStatus(error, "connect to the socket", path).ToString();
  }
}

}  // namespace mooring::cli
