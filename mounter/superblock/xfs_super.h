// The superblock of an xfs, "XFS Algorithms & Data Structures": the fields that change how a host mounts it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace mooring {

struct XfsSuper {
  std::string uuid;         // 16 bytes
  std::uint64_t bytes = 0;  // size of the filesystem
  std::uint64_t realtime_blocks = 0, realtime_extents = 0;
  std::uint64_t log_start = 0;  // block of the internal log; 0: the log is on another device
  std::uint16_t quota_flags = 0;
  std::uint32_t incompat = 0;  // 0 in version 4
};

// FAILED_PRECONDITION: there is none. Its checksum is not verified.
absl::StatusOr<XfsSuper> ReadXfsSuper(int fd, const std::string& path);

}  // namespace mooring
