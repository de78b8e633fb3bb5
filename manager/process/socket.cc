#include "manager/process/socket.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/endpoint.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::manager {
namespace {

absl::StatusOr<gid_t> FindGroup(const std::string& name) {
  std::vector<char> buffer(1 << 16);
  struct group entry = {};
  struct group* found = nullptr;
  const int error = ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found != nullptr) return found->gr_gid;
  if (error != 0) return ErrnoStatus(error, "look up the group", name);
  return FailedPrecondition(
      "--group {}: there is no such group; create it (groupadd --system {}) or leave the flag out", Quote(name), name);
}

// Binds without listening: nobody can connect before the mode is set.
absl::StatusOr<UniqueFd> BindTo(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return ErrnoStatus(errno, "make a socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus(errno, "bind a socket to", path);
  }
  return fd;
}

absl::Status Restrict(const std::string& path, const std::string& group) {
  if (::chmod(path.c_str(), 0600) != 0) return ErrnoStatus(errno, "set the mode of", path);
  if (group.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const gid_t gid, FindGroup(group));
  if (::chown(path.c_str(), static_cast<uid_t>(-1), gid) != 0) return ErrnoStatus(errno, "give to its group", path);
  return ::chmod(path.c_str(), 0660) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "set the mode of", path);
}

}  // namespace

absl::StatusOr<ListeningSocket> ListeningSocket::Bind(const std::string& path, const std::string& group) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd alone, LockSocketDirectory(path, "--socket"));
  MOORING_RETURN_IF_ERROR(ClearSocketPath(path, "--socket"));
  MOORING_ASSIGN_OR_RETURN(UniqueFd fd, BindTo(path));
  ListeningSocket socket(std::move(fd), path);  // removes its file on failure
  MOORING_RETURN_IF_ERROR(Restrict(path, group));
  if (::listen(socket.fd(), SOMAXCONN) != 0) return ErrnoStatus(errno, "listen on", path);
  return socket;
}

absl::StatusOr<std::optional<ListeningSocket>> ListeningSocket::Inherit() {
  constexpr int kUnsetEnvironment = 1;  // so that plugins do not inherit LISTEN_FDS
  const int passed = ::sd_listen_fds(kUnsetEnvironment);
  if (passed < 0) return ErrnoStatus(-passed, "take the sockets that systemd passes");
  if (passed == 0) return std::nullopt;
  UniqueFd fd(SD_LISTEN_FDS_START);
  if (passed > 1 || ::sd_is_socket_unix(fd.get(), SOCK_STREAM, 1, nullptr, 0) <= 0) {
    return FailedPrecondition(
        "systemd passes {} sockets, but the manager needs exactly one stream socket on a path (ListenStream= in "
        "mooring-manager.socket)",
        passed);
  }
  return ListeningSocket(std::move(fd), "");
}

ListeningSocket::~ListeningSocket() {
  if (fd_.ok() && !path_.empty()) ::unlink(path_.c_str());
}

}  // namespace mooring::manager
