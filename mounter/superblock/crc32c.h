// CRC-32C, the checksum of ext4's, xfs' and btrfs' superblocks: the Castagnoli polynomial, reflected (RFC 3720, B.4).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mooring {

namespace crc32c_internal {

constexpr std::array<std::uint32_t, 256> MakeTable() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1U) ^ ((rest & 1U) != 0 ? kPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}

inline constexpr std::array<std::uint32_t, 256> kTable = MakeTable();

}  // namespace crc32c_internal

// The register after `bytes`, to continue with. It begins with ~0, and most formats store its complement.
constexpr std::uint32_t Crc32cUpdate(std::uint32_t crc, std::string_view bytes) {
  for (const char byte : bytes) {
    crc = crc32c_internal::kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8U);
  }
  return crc;
}

constexpr std::uint32_t Crc32c(std::string_view bytes) { return ~Crc32cUpdate(~std::uint32_t{0}, bytes); }

static_assert(Crc32c("123456789") == 0xE3069283);

}  // namespace mooring
