// UUIDs of filesystems, as their superblocks hold them.
#ifndef MOORING_MOUNTER_SUPERBLOCK_UUID_H_
#define MOORING_MOUNTER_SUPERBLOCK_UUID_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring {

inline constexpr std::size_t kUuidBytes = 16;

absl::StatusOr<std::string> RandomUuid();  // 16 bytes: version 4, RFC 9562

// "6c0b6a5e-…", of 16 bytes. Empty where all of them are zero.
std::string UuidText(std::string_view uuid);

}  // namespace mooring

#endif  // MOORING_MOUNTER_SUPERBLOCK_UUID_H_
