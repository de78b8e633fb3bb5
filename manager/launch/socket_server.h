// Who serves a unix socket.
#ifndef MOORING_MANAGER_LAUNCH_SOCKET_SERVER_H_
#define MOORING_MANAGER_LAUNCH_SOCKET_SERVER_H_

#include <sys/types.h>

#include <string>

#include "base/file/unique_fd.h"

namespace mooring::manager {

struct SocketServer {
  pid_t pid = 0;
  UniqueFd process;  // a pidfd
};

// Whether the process behind this pidfd has ended. A pidfd that cannot be asked counts as ended.
bool IsEnded(int pidfd);

// The process that called listen(2) there and has the socket open still: what the socket tells alone is a pid that may
// be another's by now. Without `process` where nobody serves there, or it cannot be told, which is logged. Never
// ourselves, nor `except`.
SocketServer ServerOf(const std::string& socket_path, pid_t except = 0);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_SOCKET_SERVER_H_
