// Subvolumes inside a volume that do not count for its size, and others that do.
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

// How many subvolumes were put back.
struct PutBackCount {
  std::size_t inside = 0;   // of this volume: they count for it alone now
  std::size_t outside = 0;  // of other volumes: they count for those now
};

// `volume` is the id of its subvolume. The group must exist. `top` is the open top of the btrfs: through a subvolume
// that is full, the kernel changes no quotas.
absl::StatusOr<PutBackCount> PutBackStrangers(const UniqueFd& top, const std::string& path, std::uint64_t volume,
                                              std::uint64_t group);

// A call that only reads does no more: a tenant can make subvolumes without end.
inline constexpr std::size_t kMostSearches = 10'000;
inline constexpr std::size_t kMostPutBack = 100;

// Sentences for the condition of a volume with this name. Puts strangers back. Empty: there are none, the volume has no
// group, or CAP_SYS_ADMIN is missing. `root` is open. `open_top` is slow, and called only if there are strangers. It
// ends at the deadline of the thread, too.
absl::StatusOr<std::string> FindSubvolumeProblem(const UniqueFd& root, const std::string& path, std::string_view name,
                                                 const std::function<absl::StatusOr<UniqueFd>()>& open_top,
                                                 std::size_t most_searches = kMostSearches);

}  // namespace mooring
