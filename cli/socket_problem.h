// Why nobody answers at a socket, asked of the socket itself.
#ifndef MOORING_CLI_SOCKET_PROBLEM_H_
#define MOORING_CLI_SOCKET_PROBLEM_H_

#include <string>

namespace mooring::cli {

// What is told of whoever should serve a socket.
struct ServerWords {
  const char* name = "driver";
  const char* socket = "a CSI driver's socket";
  const char* start = "start the driver";
  const char* flag = "--endpoint";  // names the socket
  const char* user = "as root";     // who may open it
};

// Why a call got nowhere: gRPC says neither which of these it is nor what helps. Empty when somebody does serve the
// socket, and the error is theirs.
std::string SocketProblem(const std::string& path, const ServerWords& words = {});

// There is a socket that this user may not open, or whose queue is full: a driver may well be behind it, and a second
// one is not what helps.
bool MayBeServed(const std::string& path);

}  // namespace mooring::cli

#endif  // MOORING_CLI_SOCKET_PROBLEM_H_
