// The devices of mappings below /dev/mapper, which the kernel's device mapper makes: of logical and encrypted volumes.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "plugin/backends/device/disks.h"

namespace mooring {

inline constexpr std::string_view kMapperDirectory = "/dev/mapper";

// fnmatch(3): so many hexadecimal digits, as an id has.
inline std::string HexDigitsPattern(std::size_t digits) {
  std::string pattern;
  for (std::size_t i = 0; i < digits; ++i) pattern += "[0-9a-f]";
  return pattern;
}

// Disk::link is the name of the mapping, and Disk::node the kernel's own name of the device ("/dev/dm-3"), as sysfs and
// the mount table have it. There is no serial number, because the name says whose the mapping is.
class MappedDisks final : public SystemDisks {
 public:
  // `match`: a pattern of fnmatch(3) for the names.
  explicit MappedDisks(std::string match) : SystemDisks(std::string(kMapperDirectory), std::move(match)) {}

  // NOT_FOUND also: a node was left behind, and leads to another mapping or to none.
  absl::StatusOr<Disk> Find(const std::string& link) const override;
};

}  // namespace mooring
