// Options of mkfs as types. A table names them, with the filesystem, the range and the argument of each. So no option
// can name another file or device, and none makes a filesystem that CheckSuperblock refuses.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

struct FormatOptions {                  // 0: mkfs decides
  std::uint32_t inode_size = 0;         // bytes
  std::uint32_t bytes_per_inode = 0;    // ext4: one inode for so many bytes of the volume
  std::uint32_t max_inode_percent = 0;  // xfs: of the volume, for inodes

  auto operator<=>(const FormatOptions&) const = default;
};

// The names under which people give them.
std::vector<std::string_view> FormatOptionNames();

// False: there is no option of this name. INVALID_ARGUMENT: the value is no number.
absl::StatusOr<bool> SetFormatOption(std::string_view name, const std::string& value, FormatOptions& options);

// INVALID_ARGUMENT: the filesystem lacks one of them, or it is out of range.
absl::Status CheckFormatOptions(std::string_view fs_type, const FormatOptions& options);

// The arguments of mkfs.<fs_type>.
std::vector<std::string> FormatArguments(std::string_view fs_type, const FormatOptions& options);

// "inodeSize=512 bytesPerInode=8192"; empty if none is set.
std::string ToString(const FormatOptions& options);

}  // namespace mooring
