// The part of the interface of mounter/ for btrfs subvolumes. mounter/mounter.h has the rules for all its parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mooring {

// A call that is killed may leave <name>.deleting, or <name>.making with a part of a group in it.
inline constexpr std::string_view kDeletingEnd = ".deleting", kMakingEnd = ".making";

// The file in the pool by which calls on one subvolume keep each other away.
inline constexpr std::string_view kLockName = ".lock";

// A btrfs subvolume in a pool, a directory that is the top of a btrfs of the pool's own. Its name has the random digits
// of the volume (mounter/subvolume/quota.h).
struct NewSubvolume {
  std::string path;         // directly below the pool
  std::string source = {};  // a subvolume of the same pool, of which it becomes a snapshot; empty: it is empty
  std::uint64_t bytes = 0;  // its size, with everything that is made inside; 0: no limit
  bool read_only = false;
};

class Subvolumes {
 public:
  virtual ~Subvolumes() = default;

  // Turns simple quotas on, if quotas are off and the pool has no subvolumes. Clears what the quotas still keep of
  // deleted subvolumes. Puts back strangers (mounter/subvolume/strangers.h). FAILED_PRECONDITION: the pool has other
  // quotas, or none and subvolumes; the kernel has no simple quotas.
  virtual absl::Status PrepareSubvolumes(const std::string& pool) = 0;

  // Makes all or none, in one pool, each limited from its first byte: against accidents, because a hostile tenant can
  // leave the limit (mounter/subvolume/strangers.h). OK if the only one is not a snapshot, and exists.
  // A snapshot has what was written before the call. Several are of one instant, as after a power cut.
  // ALREADY_EXISTS: one exists. ABORTED: another call works on one, or the filesystem is too busy for snapshots of one
  // instant. If the process is killed, some may exist, or only their limits: RemoveSubvolume clears both.
  virtual absl::Status MakeSubvolumes(const std::vector<NewSubvolume>& subvolumes) = 0;

  // NOT_FOUND: it does not exist. FAILED_PRECONDITION: it has lost its group of quotas.
  virtual absl::Status LimitSubvolume(const std::string& path, std::uint64_t bytes) = 0;

  // Removes it with its limit, and with the subvolumes inside, also read-only ones. OK if it is gone already. The name
  // of what a killed call has left clears that alone. FAILED_PRECONDITION: something is mounted below it, or it is no
  // subvolume. ABORTED: another call works on it.
  virtual absl::Status RemoveSubvolume(const std::string& path) = 0;
};

}  // namespace mooring
