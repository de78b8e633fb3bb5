#include "manager/launch/socket_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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

// By the directory, whose name no other instance has, and what is in it: a server may have bound it as "//run/…", or
// below a symbolic link.
bool IsSamePlace(const std::filesystem::path& bound, const std::filesystem::path& socket_path) {
  return bound.filename() == socket_path.filename() &&
         bound.parent_path().filename() == socket_path.parent_path().filename();
}

// The sockets of the process's network that listen at this path, as they are named in /proc/PID/fd.
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

bool HasOneOpen(pid_t pid, const std::vector<std::string>& sockets) {
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

bool IsEnded(int pidfd) {
  pollfd asked = {pidfd, POLLIN, 0};
  return ::poll(&asked, 1, 0) != 0;
}

SocketServer ServerOf(const std::string& socket_path, pid_t except) {
  const pid_t pid = PidOfServer(socket_path);
  if (pid <= 0 || pid == ::getpid() || pid == except) return {};
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  // Looked at once it is held; where it has not ended after that either, the pid was nobody else's meanwhile.
  if (process.ok() && HasOneOpen(pid, ListeningAt(socket_path, pid)) && !IsEnded(process.get())) {
    return {pid, std::move(process)};
  }
  log::Warning(
      "who serves this socket is left alone, for it cannot be told: the one that called listen(2) has not got it open",
      {{"socket", socket_path}, {"pid", std::to_string(pid)}});
  return {};
}

}  // namespace mooring::manager
