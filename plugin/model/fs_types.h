// The types of filesystems that volumes may have. Mooring makes, checks and grows ext4, xfs and btrfs. A device pool
// may hold others, which --fs-type allows: they are mounted as they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mooring {

// Whether Mooring makes this filesystem: ext4, xfs or btrfs.
bool IsMadeHere(std::string_view fs_type);

// INVALID_ARGUMENT: it is one of those, or may not be in a pool of devices (mounter/other_filesystems.h).
absl::Status CheckOtherFsType(const std::string& fs_type);

// Allows these types in device pools, for the whole process. Call it before the first request.
void AllowOtherFsTypes(std::vector<std::string> fs_types);
bool IsOtherFsType(std::string_view fs_type);

// The allowed type that mounts what libblkid calls `filesystem`: the one that is asked for, if any is. Else it is the
// volume's own, or the one with the same name, or any. Empty: there is none.
std::string OtherFsTypeFor(std::string_view filesystem, std::string_view asked, std::string_view own);

bool IsSupportedFsType(std::string_view fs_type);  // of either kind
std::string SupportedFsTypes();                    // "ext4, xfs, btrfs", and the others

}  // namespace mooring
