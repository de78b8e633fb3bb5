#include "tests/support/hostile_load.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file/unique_fd.h"
#include "tests/support/kernel.h"

namespace mooring::testing {
namespace {

using namespace std::string_literals;

UniqueFd Connect(const std::string& socket) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socket.copy(address.sun_path, sizeof(address.sun_path) - 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return fd;
}

// False: the server has hung up, or has read nothing for 300 ms.
bool Send(const UniqueFd& fd, std::string_view text) {
  std::array<char, 4096> heard;
  while (!text.empty()) {
    pollfd waited = {fd.get(), POLLIN | POLLOUT, 0};
    if (::poll(&waited, 1, 300) <= 0) return false;
    if ((waited.revents & POLLIN) != 0 && ::recv(fd.get(), heard.data(), heard.size(), MSG_DONTWAIT) <= 0) return false;
    if ((waited.revents & POLLOUT) == 0) continue;
    const ssize_t sent = ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void FloodOnce(const std::string& socket, const std::string& begin, const std::string& unit, std::size_t bytes) {
  const UniqueFd fd = Connect(socket);
  bool goes_on = Send(fd, begin);
  for (std::size_t sent = 0; goes_on && sent < bytes; sent += unit.size()) goes_on = Send(fd, unit);
}

std::size_t Field(const std::string& status, const std::string& name) {
  const std::size_t at = status.find(name);
  if (at == std::string::npos) return 0;
  std::istringstream rest(status.substr(at + name.size()));
  std::size_t kib = 0;
  rest >> kib;
  return kib;
}

void ConnectAndSayNothing(const std::string& socket, int connections) {
  std::vector<UniqueFd> open;
  for (int i = 0; i < connections; ++i) open.push_back(Connect(socket));
}

}  // namespace

Memory MemoryOf(pid_t pid) {
  const std::string status = ReadFile("/proc/" + std::to_string(pid) + "/status");
  return {.resident_kib = Field(status, "VmRSS:"), .peak_kib = Field(status, "VmHWM:")};
}

void Flood(const std::string& socket, int clients, const std::string& begin, const std::string& unit,
           std::size_t bytes) {
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) threads.emplace_back(FloodOnce, socket, begin, unit, bytes);
  for (std::thread& thread : threads) thread.join();
}

void FloodInEveryWay(const std::string& socket) {
  constexpr std::size_t kMiB = 1024 * 1024;
  constexpr int kClients = 16;
  const std::string post = "POST /VolumeDriver.Create HTTP/1.1\r\nHost: x\r\n";
  const std::string http2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"s;
  Flood(socket, kClients, post + "Content-Length: 8388608\r\n\r\n", std::string(kMiB, '['), 8 * kMiB);
  Flood(socket, kClients, post + "Transfer-Encoding: chunked\r\n\r\n", "8000\r\n" + std::string(0x8000, '[') + "\r\n",
        8 * kMiB);
  Flood(socket, kClients, post, "A: " + std::string(4000, 'x') + "\r\n", 8 * kMiB);
  Flood(socket, kClients, "", std::string(kMiB, 'x'), 4 * kMiB);
  // A header block of endless CONTINUATION frames, and data of a stream that is not open.
  Flood(socket, kClients, http2 + "\0\0\1\1\0\0\0\0\1\0"s, "\0\x20\0\x9\0\0\0\0\1"s + std::string(0x2000, 'x'),
        4 * kMiB);
  Flood(socket, kClients, http2, "\0\x20\0\0\0\0\0\0\1"s + std::string(0x2000, 'x'), 4 * kMiB);
  ConnectAndSayNothing(socket, 500);
}

}  // namespace mooring::testing
