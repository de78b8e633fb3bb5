#include "metrics/listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/endpoint.h"
#include "base/status.h"

namespace mooring::metrics {
namespace {

constexpr char kFlag[] = "--metrics-listen";
constexpr int kQueue = 16;

// An address of any family, in the form that bind(2) takes.
struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

template <typename Kind>
Address AddressOf(const Kind& kind) {
  Address address;
  std::memcpy(&address.storage, &kind, sizeof kind);
  address.size = sizeof(Kind);
  return address;
}

Address V4(const ListenAddress& wanted) {
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  in.sin_port = htons(wanted.port);
  if (!wanted.ip.empty()) ::inet_pton(AF_INET, wanted.ip.c_str(), &in.sin_addr);
  return AddressOf(in);
}

Address V6(const ListenAddress& wanted) {
  sockaddr_in6 in = {};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(wanted.port);
  if (!wanted.ip.empty()) ::inet_pton(AF_INET6, wanted.ip.c_str(), &in.sin6_addr);
  return AddressOf(in);
}

std::string Text(const ListenAddress& wanted) { return fmt::format("{} {}", kFlag, ToString(wanted)); }

absl::Status CannotBind(int error, const ListenAddress& wanted) {
  if (error != EADDRINUSE) return ErrnoStatus(error, Text(wanted) + ": bind");
  return FailedPrecondition(
      "{}: another process listens there (ss -ltnp names it): end that first, or choose another port", Text(wanted));
}

absl::StatusOr<UniqueFd> ListenAt(Address address, const ListenAddress& wanted) {
  UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return ErrnoStatus(errno, Text(wanted) + ": make a socket");
  constexpr int kOn = 1, kOff = 0;
  if (address.storage.ss_family != AF_UNIX) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn);
  // [::] then stands for the addresses of IPv4, too, whatever the default of the host is (ipv6(7)).
  if (address.storage.ss_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &kOff, sizeof kOff);
  if (::bind(fd.get(), address.get(), address.size) != 0) return CannotBind(errno, wanted);
  if (::listen(fd.get(), kQueue) != 0) return ErrnoStatus(errno, Text(wanted) + ": listen");
  return fd;
}

// An IPv6 socket takes IPv4, too. A host without IPv6 gets an IPv4 socket.
absl::StatusOr<UniqueFd> ListenOnTcp(const ListenAddress& wanted) {
  const bool is_v6 = wanted.ip.find(':') != std::string::npos;
  if (!wanted.ip.empty()) return ListenAt(is_v6 ? V6(wanted) : V4(wanted), wanted);
  absl::StatusOr<UniqueFd> both = ListenAt(V6(wanted), wanted);
  return both.ok() ? std::move(both) : ListenAt(V4(wanted), wanted);
}

absl::StatusOr<UniqueFd> ListenOnUnix(const ListenAddress& wanted) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd alone, LockSocketDirectory(wanted.socket_path, kFlag));
  MOORING_RETURN_IF_ERROR(ClearSocketPath(wanted.socket_path, kFlag));
  sockaddr_un un = {};
  un.sun_family = AF_UNIX;
  wanted.socket_path.copy(un.sun_path, sizeof(un.sun_path) - 1);
  const mode_t before = ::umask(0111);
  const absl::Cleanup restore = [before] { ::umask(before); };
  return ListenAt(AddressOf(un), wanted);
}

// The address with the port that the kernel chose.
ListenAddress WithPort(ListenAddress address, const UniqueFd& socket) {
  Address bound;
  bound.size = sizeof bound.storage;
  if (::getsockname(socket.get(), bound.get(), &bound.size) != 0) return address;
  sockaddr_in in = {};
  std::memcpy(&in, &bound.storage, sizeof in);  // both families have the port in the same place
  address.port = ntohs(in.sin_port);
  return address;
}

}  // namespace

absl::StatusOr<Listener> Listener::Bind(const ListenAddress& address) {
  if (!address.socket_path.empty()) {
    MOORING_ASSIGN_OR_RETURN(UniqueFd socket, ListenOnUnix(address));
    return Listener{std::move(socket), address};
  }
  MOORING_ASSIGN_OR_RETURN(UniqueFd socket, ListenOnTcp(address));
  const ListenAddress bound = WithPort(address, socket);
  return Listener{std::move(socket), bound};
}

absl::StatusOr<std::optional<Listener>> Listener::Bind(const std::optional<ListenAddress>& address) {
  if (!address) return std::optional<Listener>();
  MOORING_ASSIGN_OR_RETURN(Listener listener, Bind(*address));
  return std::optional(std::move(listener));
}

}  // namespace mooring::metrics
