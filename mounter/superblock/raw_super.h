// A superblock as its bytes, without the meaning of its fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

struct SuperLayout {
  std::string_view filesystem;  // "an ext4", for messages
  std::size_t bytes = 0;
  std::size_t magic_at = 0;
  std::string_view magic;
};

// The superblock that begins at the byte `place` of the file or device. FAILED_PRECONDITION: none with this magic.
absl::StatusOr<std::string> ReadSuper(int fd, const std::string& path, const SuperLayout& layout, std::uint64_t place);
absl::Status WriteSuper(int fd, const std::string& path, std::uint64_t place, const std::string& super);

// The number in the field that begins at the byte `at`. ext4 and btrfs are little-endian, xfs is big-endian.
template <typename Number>
Number LoadBig(std::string_view super, std::size_t at) {
  Number number = 0;
  for (const char byte : super.substr(at, sizeof(Number))) {
    number = static_cast<Number>(number << 8U | static_cast<unsigned char>(byte));
  }
  return number;
}

template <typename Number>
Number LoadLittle(std::string_view super, std::size_t at) {
  const std::string_view field = super.substr(at, sizeof(Number));
  return LoadBig<Number>(std::string(field.rbegin(), field.rend()), 0);
}

template <typename Number>
void StoreLittle(std::string& super, std::size_t at, Number number) {
  for (std::size_t byte = 0; byte < sizeof(Number); ++byte) super[at + byte] = static_cast<char>(number >> (8 * byte));
}

inline constexpr std::size_t kUuidBytes = 16;
std::string RandomUuid();  // as bytes

}  // namespace mooring
