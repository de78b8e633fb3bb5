#include "cli/endpoint.h"

#include <fmt/format.h>

namespace mooring::cli {

std::string GrpcTarget(std::string_view socket_path) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  std::string target = "unix:";
  for (const char c : socket_path) {
    if (kPlain.find(c) != std::string_view::npos) {
      target += c;
    } else {
      target += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return target;
}

}  // namespace mooring::cli
