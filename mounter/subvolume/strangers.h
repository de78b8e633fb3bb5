// Subvolumes inside a volume that do not count for its size.
//
// The kernel lets anybody who makes a subvolume name its groups of quotas (struct btrfs_qgroup_inherit), without a
// privilege. So a hostile tenant can make one that is in no group, or in that of another volume. A driver can only find
// them afterwards. A seccomp filter that refuses BTRFS_IOC_SUBVOL_CREATE_V2 and BTRFS_IOC_SNAP_CREATE_V2 prevents them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// `path` is for messages. The group is of level 1, and given by its number.

// FAILED_PRECONDITION: the subvolume is no member of the group, so nothing holds it to its size.
absl::Status CheckIsMember(const UniqueFd& subvolume, const std::string& path, std::uint64_t group);

// Makes all subvolumes below this one, an id, members of this group alone, which must exist. Returns how many were not.
// `top` is the open top of the btrfs: through a subvolume that is full, the kernel changes no quotas.
absl::StatusOr<std::size_t> PutBackStrangers(const UniqueFd& top, const std::string& path, std::uint64_t volume,
                                             std::uint64_t group);

// A sentence for the condition of a volume with this name. Puts strangers back. Empty: there are none, the volume has
// no group, or CAP_SYS_ADMIN is missing. `root` is open. `open_top` is slow, and called only if there are strangers.
absl::StatusOr<std::string> FindSubvolumeProblem(const UniqueFd& root, const std::string& path, std::string_view name,
                                                 const std::function<absl::StatusOr<UniqueFd>()>& open_top);

}  // namespace mooring
