// The calls of Subvolumes (mounter/mounter.h). They need CAP_SYS_ADMIN.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/subvolume/quota.h"
#include "mounter/subvolumes.h"

namespace mooring {

absl::Status PrepareSubvolumePool(const std::string& pool);
absl::Status MakeSubvolumesIn(const std::vector<NewSubvolume>& wanted);
absl::Status SetSubvolumeLimit(const std::string& path, std::uint64_t bytes);
absl::Status DeleteSubvolume(const std::string& path);

// The group of level 1 of the subvolume that contains this open file. Empty: it has none, or quotas are off.
absl::StatusOr<std::optional<BtrfsQuotas::Group>> GroupOfSubvolume(const UniqueFd& file, const std::string& path);

}  // namespace mooring
