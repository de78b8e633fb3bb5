// Clears what former owners wrote on a block device. Each call ends with fsync(2). Afterwards the bytes read as zeros.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

inline constexpr std::uint64_t kClearedEnd = 16U << 20U;  // bytes, of ClearEnds

// `path` is for messages in all of these. The size of the open device in bytes.
absl::StatusOr<std::uint64_t> DeviceBytes(const UniqueFd& device, const std::string& path);

absl::Status ClearFrom(const UniqueFd& device, const std::string& path, std::uint64_t from);  // up to the end

// kClearedEnd at each end, where filesystems have their signatures. A small device is cleared as a whole.
absl::Status ClearEnds(const UniqueFd& device, const std::string& path);

// After a growth from `had` bytes: the same at the new end. Nothing before `had` is changed.
absl::Status ClearNewEnd(const UniqueFd& device, const std::string& path, std::uint64_t had);

}  // namespace mooring
