// The calls of LogicalVolumes (mounter/logical_volumes.h). They need CAP_SYS_ADMIN and CAP_MKNOD.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/logical_volumes.h"
#include "mounter/lvm/lvm_program.h"

namespace mooring {

absl::StatusOr<LvmReport> ReportLvmPool(const Lvm& lvm, const std::string& pool);
absl::Status MakeVolumeIn(const Lvm& lvm, const NewLogicalVolume& wanted);
absl::Status GrowVolumeIn(const Lvm& lvm, const LogicalVolumeName& volume, std::uint64_t bytes);
absl::Status ActivateVolumeIn(const Lvm& lvm, const LogicalVolumeName& volume);
absl::Status NoteRawVolumeIn(const Lvm& lvm, const LogicalVolumeName& volume);
absl::Status RemoveVolumeIn(const Lvm& lvm, const LogicalVolumeName& volume);

}  // namespace mooring
