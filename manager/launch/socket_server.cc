#include "manager/launch/socket_server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/child.h"
#include "base/file/await_input.h"
#include "base/file/directory.h"
#include "base/log.h"

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

// Compares only the names of the directory, which is unique, and of the socket. A server may have bound the socket as
// "//run/…", or below a symbolic link.
bool IsSamePlace(const std::filesystem::path& bound, const std::filesystem::path& socket_path) {
  return bound.filename() == socket_path.filename() &&
         bound.parent_path().filename() == socket_path.parent_path().filename();
}

// The sockets that listen at this path in the network namespace of the process, named as in /proc/PID/fd.
std::vector<std::string> ListeningAt(const std::string& socket_path, pid_t pid) {
  constexpr unsigned long kListens = 1 << 16;  // __SO_ACCEPTCON, see proc_net(5)
  std::ifstream table(fmt::format("/proc/{}/net/unix", pid));
  std::vector<std::string> sockets;
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string address, references, protocol, type, state, inode, path;
    unsigned long flags = 0;
    fields >> address >> references >> protocol >> std::hex >> flags >> type >> state >> inode >> std::ws;
    std::getline(fields, path);
    if ((flags & kListens) != 0 && IsSamePlace(path, socket_path)) sockets.push_back(fmt::format("socket:[{}]", inode));
  }
  return sockets;
}

bool HasAnyOpen(pid_t pid, const std::vector<std::string>& sockets) {
  const std::string directory = fmt::format("/proc/{}/fd", pid);
  const auto descriptors = EntriesOf(directory);
  if (!descriptors.ok()) return false;
  return std::any_of(descriptors->begin(), descriptors->end(), [&](const std::string& descriptor) {
    std::error_code error;
    const std::string open = std::filesystem::read_symlink(fmt::format("{}/{}", directory, descriptor), error);
    return !error && std::find(sockets.begin(), sockets.end(), open) != sockets.end();
  });
}

}  // namespace

SocketServer ServerOf(const std::string& socket_path, pid_t except) {
  const pid_t pid = PidOfServer(socket_path);
  if (pid <= 0 || pid == ::getpid() || pid == except) return {};
  UniqueFd process = OpenPidFd(pid);
  // Checked after the pidfd is open. If the process still has not ended then, the pid was not reused in between.
  if (process.ok() && HasAnyOpen(pid, ListeningAt(socket_path, pid)) && !HasInput(process)) {
    return {pid, std::move(process)};
  }
  log::Warning(
      "the process that serves this socket is left alone: the one that called listen(2) does not have it open any more",
      {{"socket", socket_path}, {"pid", std::to_string(pid)}});
  return {};
}

}  // namespace mooring::manager
