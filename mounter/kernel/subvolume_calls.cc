#include "base/status.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/subvolume/pool_calls.h"
#include "mounter/table/mount_table.h"

namespace mooring {

absl::Status KernelMounter::PrepareSubvolumes(const std::string& pool) { return PrepareSubvolumePool(pool); }

absl::Status KernelMounter::MakeSubvolumes(const std::vector<NewSubvolume>& subvolumes) {
  return MakeSubvolumesIn(subvolumes);
}

absl::Status KernelMounter::LimitSubvolume(const std::string& path, std::uint64_t bytes) {
  return SetSubvolumeLimit(path, bytes);
}

absl::Status KernelMounter::RemoveSubvolume(const std::string& path) {
  MOORING_RETURN_IF_ERROR(CheckNothingMountedBelow(path));
  return DeleteSubvolume(path);
}

}  // namespace mooring
