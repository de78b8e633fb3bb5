// Filesystems of memory, tmpfs(5): their source is a name of ours, their size is a number of bytes.
#ifndef MOORING_MOUNTER_MOUNT_MEMORY_MOUNT_H_
#define MOORING_MOUNTER_MOUNT_MEMORY_MOUNT_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "mounter/mounter.h"
#include "mounter/path/target.h"

namespace mooring {

inline constexpr std::string_view kMemoryFsType = "tmpfs";

// INVALID_ARGUMENT: an option but size, nr_inodes, mode and huge=never, one that is there twice, another form than
// tmpfs(5)'s plain numbers, or one that sets no limit: 0, or more inodes than pages.
absl::Status CheckMemoryOptions(const std::vector<FilesystemOption>& options);

// The bytes of the option "size"; none: there is not one such option, or it is no number, or 0, "no limit".
std::optional<std::uint64_t> MemorySizeIn(const std::vector<FilesystemOption>& options);

// INVALID_ARGUMENT: without a size, or without a source.
absl::Status MountMemory(const MountRequest& request, const Target& target);

}  // namespace mooring

#endif  // MOORING_MOUNTER_MOUNT_MEMORY_MOUNT_H_
