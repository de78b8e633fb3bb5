// Finds the process that serves a unix socket.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/file/unique_fd.h"

namespace mooring::manager {

struct SocketServer {
  pid_t pid = 0;
  UniqueFd process;  // a pidfd
};

// Finds the process that called listen(2) at this path and still has the socket open. SO_PEERCRED alone gives a pid
// that another process may have by now. `process` is not open if nobody serves there. It is not open either if the
// process is not certain, which is logged. Never gives this process or `except`.
SocketServer ServerOf(const std::string& socket_path, pid_t except = 0);

}  // namespace mooring::manager
