// Looks mounts up by statmount(2), whose cost does not depend on the number of mounts. Where the kernel (before
// Linux 6.8) or a seccomp profile lacks it, libmount's table is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

// `unique`: the id is STATX_MNT_ID_UNIQUE of statx(2), else it is mountinfo's. NOT_FOUND: the mount is gone.
// UNIMPLEMENTED: there is no statmount(2) to look a unique id up; ask with mountinfo's id.
absl::StatusOr<ListedMount> LookUpMount(std::uint64_t id, bool unique);

// The mount that an open file is on. UNIMPLEMENTED: there is no statmount(2).
absl::StatusOr<ListedMount> AskForMountOf(const UniqueFd& file, const std::string& path);

// The same, by the mount table where there is no statmount(2).
absl::StatusOr<ListedMount> LookUpMountOf(const UniqueFd& file, const std::string& path);

// The directories of the scratches (mounter/mount/scratch.h).
inline constexpr const char* kScratchBases[] = {"/run/mooring-scratch", "/dev/shm/mooring-scratch"};

// All mounts at or below `path`, ordered by target: parents before children. Without those in a scratch: the mounter
// that has made them moves or unmounts them in a moment, and nobody else can.
absl::StatusOr<std::vector<ListedMount>> ListMounts(const std::string& path);

// FAILED_PRECONDITION: something is mounted at `directory` or below it. Other mount namespaces do not count.
absl::Status CheckNothingMountedBelow(const std::string& directory);

// The options that the filesystem reports, with commas: "errors=remount-ro,shutdown". `id` is statmount(2)'s. Empty
// before Linux 6.11.
std::string FilesystemOptions(std::uint64_t id);

}  // namespace mooring
