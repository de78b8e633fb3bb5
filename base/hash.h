// A hash that is the same in all versions and on every host.
#pragma once

#include <cstdint>
#include <string_view>

namespace mooring {

// FNV-1a. It is not for adversaries.
inline std::uint64_t HashOf(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

}  // namespace mooring
