// What is mounted: asked of the kernel by mount id (statmount(2), flat in the number of mounts), or read from
// libmount's table on kernels before 6.8.
#ifndef MOORING_MOUNTER_TABLE_MOUNT_TABLE_H_
#define MOORING_MOUNTER_TABLE_MOUNT_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

// `unique`: the id is statx(2)'s STATX_MNT_ID_UNIQUE, else the one of mountinfo. NOT_FOUND: no such mount here any
// more. UNIMPLEMENTED: a unique id, but no statmount(2) to look it up with; ask with the other id.
absl::StatusOr<MountInfo> LookUpMount(std::uint64_t id, bool unique);

// The mount that an open file is on.
absl::StatusOr<MountInfo> LookUpMountOf(const UniqueFd& file, const std::string& path);

// All mounts at or below `path`, ordered by target: parents before children.
absl::StatusOr<std::vector<MountInfo>> ListMounts(const std::string& path);

// What the filesystem says of itself, with commas: "errors=remount-ro,shutdown". `id` is statmount(2)'s. Empty on
// kernels before 6.11.
std::string FilesystemOptions(std::uint64_t id);

}  // namespace mooring

#endif  // MOORING_MOUNTER_TABLE_MOUNT_TABLE_H_
