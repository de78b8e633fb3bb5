#include "manager/supervisor/socket_server.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace mooring::manager {
namespace {

pid_t PidOfServer(const std::string& socket_path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return 0;
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  const UniqueFd link(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(link.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 0;
  ucred server = {};
  socklen_t size = sizeof server;
  if (::getsockopt(link.get(), SOL_SOCKET, SO_PEERCRED, &server, &size) != 0) return 0;
  return server.pid;
}

}  // namespace

SocketServer ServerOf(const std::string& socket_path) {
  const pid_t pid = PidOfServer(socket_path);
  if (pid <= 0 || pid == ::getpid()) return {};
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  // Asked again once it is held: from now on the pid is nobody else's.
  if (!process.ok() || PidOfServer(socket_path) != pid) return {};
  return {pid, std::move(process)};
}

}  // namespace mooring::manager
