// The free space of the filesystem that holds a pool.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/backends/interface/backend.h"

namespace mooring {

absl::StatusOr<BackendCapacity> SpaceIn(const std::string& directory);

// OUT_OF_RANGE: it has less space left.
absl::Status CheckSpaceIn(const std::string& directory, std::uint64_t more_bytes);

}  // namespace mooring
