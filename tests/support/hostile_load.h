// Clients that send more than anybody honest does, for tests of what a server's process is like afterwards.
#ifndef MOORING_TESTS_SUPPORT_HOSTILE_LOAD_H_
#define MOORING_TESTS_SUPPORT_HOSTILE_LOAD_H_

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace mooring::testing {

struct Memory {
  std::size_t resident_kib = 0, peak_kib = 0;  // VmRSS and VmHWM, proc(5)
};
Memory MemoryOf(pid_t pid);

// `clients` at a time connect to the unix socket, send `begin`, and then `unit` again and again until `bytes` are sent
// or the server hangs up. What the server says is read and thrown away.
void Flood(const std::string& socket, int clients, const std::string& begin, const std::string& unit,
           std::size_t bytes);

// The same load for each socket, whatever it speaks: HTTP/1 and HTTP/2 with headers and bodies without end, noise, and
// many connections on which nothing is said. Some 100 MiB in all.
void FloodInEveryWay(const std::string& socket);

}  // namespace mooring::testing

#endif  // MOORING_TESTS_SUPPORT_HOSTILE_LOAD_H_
