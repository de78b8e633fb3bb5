// Finds out why a socket does not answer.
#pragma once

#include <string>

namespace mooring::cli {

// How errors describe a server and its socket.
struct ServerDescription {
  const char* name = "driver";
  const char* socket = "a CSI driver's socket";
  const char* start = "start the driver";
  const char* flag = "--endpoint";  // that names the socket
  const char* user = "as root";     // how to get access to it
};

// Why a call did not reach its server, and what to do: the error of gRPC tells neither. Empty if a process serves the
// socket, so that the error is from that process.
std::string SocketProblem(const std::string& path, const ServerDescription& server = {});

// Whether a driver may serve a socket that does not answer: this user may not open it, or its queue is full. Then
// starting another driver does not help.
bool MayBeServed(const std::string& path);

// Whether the server may come up by itself: its socket is missing, is not served yet, or its queue is full.
bool MayComeUp(const std::string& path);

}  // namespace mooring::cli
