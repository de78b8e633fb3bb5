// The directory and the quotas of a pool of btrfs subvolumes: the check at the start, and the state later.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "mounter/subvolume/quota.h"
#include "plugin/backends/interface/backend_type.h"
#include "plugin/backends/interface/quota_word.h"

namespace mooring {

// The id in the name of an unfinished subvolume (mounter/subvolume/subvolume_pool.cc). Empty: it is none.
std::string IdOfUnfinished(const std::string& name);

// Closes the directory to other users. FAILED_PRECONDITION: the path is not the top of a btrfs. Without volumes also:
// it holds something else; its quotas, or the kernel, cannot limit volumes. Volumes that are there are served in any
// case, with a QuotaProblem. UNAVAILABLE: not at the first start, and the path is empty, because its btrfs is not
// mounted.
absl::Status CheckBtrfsPool(const PoolConfig& pool, bool is_first_start);

// UNAVAILABLE: no btrfs is mounted there.
absl::Status CheckIsMounted(const std::string& directory);

// UNAVAILABLE: as CheckIsMounted.
absl::StatusOr<BtrfsQuotas> QuotasOf(const std::string& directory);

// A sentence for the conditions of volumes. Empty: sizes are enforced.
std::string QuotaProblem(const BtrfsQuotas& quotas, const std::string& directory);

}  // namespace mooring
