// Clients that flood a server, for tests of its memory afterwards.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace mooring::testing {

struct Memory {
  std::size_t resident_kib = 0, peak_kib = 0;  // VmRSS and VmHWM, proc(5)
};
Memory MemoryOf(pid_t pid);

// As many clients at a time connect to the unix socket. Each sends `begin`, and then `unit` until it has sent `bytes`
// or the server hangs up. Answers are read and thrown away.
void Flood(const std::string& socket, int clients, const std::string& begin, const std::string& unit,
           std::size_t bytes);

// About 100 MiB for a socket of any protocol: endless headers and bodies of HTTP/1 and HTTP/2, noise, and many silent
// connections.
void FloodInEveryWay(const std::string& socket);

}  // namespace mooring::testing
