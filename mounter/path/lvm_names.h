// Names of LVM, and the paths of its devices, lvm(8) "VALID NAMES". Each name is checked here before it becomes an
// argument of lvm.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring {

struct LvmPool {
  std::string group;
  std::string thin_pool;  // empty: thick volumes
  bool is_thin() const { return !thin_pool.empty(); }
};

// "GROUP" or "GROUP/THINPOOL". INVALID_ARGUMENT: a name that lvm does not allow or keeps for itself, or that is too
// long for the names of devices.
absl::StatusOr<LvmPool> ParseLvmPool(const std::string& pool);

// The name of a volume or snapshot of Mooring: letters, digits and '-', and "vol-" or "snap-" in front.
bool IsLvmVolumeName(std::string_view name);

// The name below /dev/mapper, where a '-' in a name is doubled: "vg-vol--ab12".
std::string LvmDeviceName(std::string_view group, std::string_view name);

std::string LvmDevicePath(const LvmPool& pool, std::string_view name);  // "/dev/mapper/vg-vol--ab12"

}  // namespace mooring
