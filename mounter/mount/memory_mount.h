// Filesystems in memory, tmpfs(5). Their source is a name that Mooring chooses, their size is a number of bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "mounter/mounter.h"
#include "mounter/path/target.h"

namespace mooring {

inline constexpr std::string_view kMemoryFsType = "tmpfs";

// Allowed are size, nr_inodes, mode and huge=never, as plain numbers, and what a user may ask for (IsAllowed); each
// once. INVALID_ARGUMENT: anything else, or no limit, which is 0 or more inodes than pages.
absl::Status CheckMemoryOptions(const std::vector<FilesystemOption>& options);

// The bytes of the option "size". Empty: there is not exactly one such option, or it is no number, or 0 ("no limit").
std::optional<std::uint64_t> MemorySizeIn(const std::vector<FilesystemOption>& options);

// INVALID_ARGUMENT: the request has no size, or no source.
absl::Status MountMemory(const MountRequest& request, const Target& target);

}  // namespace mooring
