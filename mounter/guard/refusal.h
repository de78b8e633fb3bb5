// The refusals of a GuardedMounter.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace mooring {

// FAILED_PRECONDITION with `message`. `reason`, a constant, is logged once.
absl::Status Refuse(const char* reason, const std::string& message);

// OK for ext4, xfs and btrfs. `others`: allowed as well, and asked for already.
absl::Status CheckFsType(const std::string& fs_type, const std::vector<std::string>& others = {});

}  // namespace mooring
