#include "plugin/process/resolver.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>

#include "base/file/await_input.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/helper/channel.h"
#include "plugin/process/confinement.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kResolvePatience{20};
constexpr std::size_t kLongestAnswer = 4096;

bool IsAddress(const std::string& name) {
  in6_addr address = {};
  return ::inet_pton(AF_INET, name.c_str(), &address) == 1 || ::inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

// A line for each address, or "!" and the reason.
std::string AddressLines(const std::string& name) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(name.c_str(), nullptr, &wanted, &found);
  if (failed != 0) return std::string("!") + ::gai_strerror(failed);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  std::string lines;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    std::array<char, NI_MAXHOST> text = {};
    if (::getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (lines.size() + text.size() < kLongestAnswer / 2) lines += std::string(text.data()) + "\n";
  }
  return lines.empty() ? "!it has no address" : lines;
}

// The request is a number. The answer repeats it, so that a late one is not taken for the next. Requests that came
// during a late answer have no reader any more, except the last one.
[[noreturn]] void Serve(const UniqueFd& socket, const std::string& name, const RunAs& user) {
  ::prctl(PR_SET_NAME, "mooring-resolve");
  const int kept = socket.get();
  ::close_range(STDERR_FILENO + 1, static_cast<unsigned>(kept - 1), 0);
  ::close_range(static_cast<unsigned>(kept + 1), ~0U, 0);
  if (!ConfineResolver(user).ok()) ::_exit(1);
  std::uint32_t number = 0;
  while (::recv(kept, &number, sizeof(number), 0) == sizeof(number)) {
    while (::recv(kept, &number, sizeof(number), MSG_DONTWAIT) == sizeof(number)) continue;
    const std::string answer = std::string(reinterpret_cast<const char*>(&number), sizeof(number)) + AddressLines(name);
    if (::send(kept, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) break;
  }
  ::_exit(0);
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    lines.push_back(text.substr(at, end - at));
  }
  return lines;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Resolver>> Resolver::Start(const std::vector<std::string>& names, const RunAs& user) {
  std::unique_ptr<Resolver> resolver(new Resolver());
  for (const std::string& name : names) {
    if (IsAddress(name) || resolver->asked_.contains(name)) continue;
    MOORING_ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair(SOCK_SEQPACKET));
    const pid_t child = ::fork();
    if (child < 0) return ErrnoStatus(errno, "fork, to find the address of", name);
    if (child == 0) Serve(pair.theirs, name, user);
    resolver->asked_[name].socket = std::move(pair.ours);
  }
  return resolver;
}

absl::StatusOr<std::vector<std::string>> Resolver::Find(const std::string& name) {
  if (IsAddress(name)) return std::vector<std::string>{name};
  const auto found = asked_.find(name);
  if (found == asked_.end()) return Unavailable("{} is the name of no pool's server", Quote(name));
  Asked& asked = found->second;
  const std::lock_guard<std::mutex> lock(asked.asking);
  const std::uint32_t number = ++asked.round;
  if (::send(asked.socket.get(), &number, sizeof(number), MSG_NOSIGNAL) < 0) {
    return Unavailable("the process that finds the address of {} has ended: start the plugin again", Quote(name));
  }
  for (const auto end = std::chrono::steady_clock::now() + kResolvePatience; AwaitInput(asked.socket, end);) {
    std::array<char, kLongestAnswer> text = {};
    const ssize_t got = ::recv(asked.socket.get(), text.data(), text.size(), 0);
    if (got <= static_cast<ssize_t>(sizeof(number))) break;
    const std::string answer(text.data(), static_cast<std::size_t>(got));
    if (answer.compare(0, sizeof(number), reinterpret_cast<const char*>(&number), sizeof(number)) != 0) continue;
    const std::string told = answer.substr(sizeof(number));
    if (told.starts_with('!')) return Unavailable("find the address of {}: {}", Quote(name), told.substr(1));
    return LinesOf(told);
  }
  return Unavailable("nobody answers who {} is: look at the DNS of this host", Quote(name));
}

}  // namespace mooring
