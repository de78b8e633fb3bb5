// The growth of logical volumes. A cleared thick volume gets extents that hold the bytes of their former owners, so it
// has no device for anybody meanwhile:
//
//   lvchange -an ─▶ mooring_growing ─▶ lvextend ─▶ lvchange -ay ─▶ clear ─▶ mooring_cleared_SIZE, not growing
//
// A call after an interruption goes on. Nobody uses the volume before (LogicalVolume::is_growing), so no task has
// written to the part that is cleared. A part that somebody else added is never cleared: it may be in use.
#include <fcntl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "mounter/lvm/lvm_device.h"
#include "mounter/lvm/volume_calls.h"
#include "mounter/lvm/volume_steps.h"

namespace mooring {
namespace {

absl::StatusOr<std::uint64_t> BytesOfDevice(const LvmVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const LvmDevice device, LvmDevice::Open(volume.pool, volume.name, O_RDONLY));
  return device.Bytes();
}

// Somebody may have killed an lvextend before the device got the new size.
absl::Status GiveDeviceItsSize(const Lvm& lvm, const LvmVolume& volume, const LogicalVolume& recorded) {
  if (!recorded.is_active) return absl::OkStatus();
  const absl::StatusOr<std::uint64_t> bytes = BytesOfDevice(volume);
  if (!bytes.ok() || *bytes == recorded.bytes) return absl::OkStatus();
  return Refresh(lvm, volume.path());
}

// Somebody may have reduced the volume. Then its tag counts bytes that it does not have.
std::uint64_t ClearedOf(const LvmVolumeState& state) {
  return std::min(state.cleared_bytes.value_or(0), state.volume.bytes);
}

absl::Status CheckCanGrow(const LvmState& state, const LvmPool& pool, std::uint64_t had, std::uint64_t wanted) {
  MOORING_RETURN_IF_ERROR(CheckDisks(state, pool));
  return pool.is_thin() || wanted <= had ? absl::OkStatus() : CheckRoom(state, pool, wanted - had);
}

// If an administrator has reduced the volume, its tag is lowered to the present size.
absl::Status NoteGrowth(const Lvm& lvm, const LvmVolume& volume, const LvmVolumeState& before) {
  if (before.volume.is_growing) return absl::OkStatus();
  std::vector<std::string> changes = {"--addtag", std::string(kLvmGrowingTag)};
  if (const std::uint64_t cleared = ClearedOf(before); cleared != *before.cleared_bytes) {
    changes.insert(changes.end(), {"--deltag", ClearedTag(*before.cleared_bytes), "--addtag", ClearedTag(cleared)});
  }
  return ChangeMetadata(lvm, volume, changes);
}

absl::Status ClearFrom(const Lvm& lvm, const LvmVolume& volume, std::uint64_t from) {
  // Nobody can mount it meanwhile.
  MOORING_ASSIGN_OR_RETURN(const LvmDevice device, LvmDevice::Open(volume.pool, volume.name, O_WRONLY | O_EXCL));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, device.Bytes());
  MOORING_RETURN_IF_ERROR(device.Clear(from));
  std::vector<std::string> changes = {"--deltag", std::string(kLvmGrowingTag)};
  if (bytes != from) changes.insert(changes.end(), {"--deltag", ClearedTag(from), "--addtag", ClearedTag(bytes)});
  return ChangeMetadata(lvm, volume, changes);
}

absl::Status ExtendAndClear(const Lvm& lvm, const LvmVolume& volume, const LvmVolumeState& before,
                            std::uint64_t wanted) {
  MOORING_RETURN_IF_ERROR(NoteGrowth(lvm, volume, before));
  if (before.volume.bytes < wanted) MOORING_RETURN_IF_ERROR(Extend(lvm, volume, wanted));
  MOORING_RETURN_IF_ERROR(GiveDevice(lvm, volume));
  return ClearFrom(lvm, volume, ClearedOf(before));
}

absl::Status GrowCleared(const Lvm& lvm, const LogicalVolumeName& name, const LvmVolume& volume,
                         const LvmVolumeState& before, std::uint64_t wanted) {
  MOORING_RETURN_IF_ERROR(TakeDevice(lvm, volume));
  const absl::Status done = ExtendAndClear(lvm, volume, before, wanted);
  if (!done.ok()) {
    log::WarningIfFailed(ActivateVolumeIn(lvm, name), "a logical volume that did not grow has no device now",
                         {{"volume", volume.path()}});
  }
  return done;
}

// The new end may look like a filesystem. A volume that is mounted has its own. Another one may have none yet.
absl::Status GrowPlain(const Lvm& lvm, const LvmVolume& volume, const LogicalVolume& before, std::uint64_t wanted) {
  MOORING_RETURN_IF_ERROR(Extend(lvm, volume, wanted));
  if (volume.pool.is_thin()) return absl::OkStatus();
  if (!before.is_active) MOORING_RETURN_IF_ERROR(GiveDevice(lvm, volume));
  const absl::StatusOr<LvmDevice> device = LvmDevice::Open(volume.pool, volume.name, O_WRONLY | O_EXCL);
  if (absl::IsFailedPrecondition(device.status())) return absl::OkStatus();  // it is mounted
  return device.ok() ? device->ClearNewEnd(before.bytes) : device.status();
}

absl::Status CheckNotEnlarged(const LvmVolume& volume, const LvmVolumeState& state) {
  if (!state.volume.is_enlarged) return absl::OkStatus();
  return FailedPrecondition(
      "the logical volume {} was enlarged by another program (lvextend). Its new part may show what deleted volumes "
      "held, and is not cleared, because it may be in use. To accept that tasks can read it, or after you have cleared "
      "it yourself: lvchange --deltag {} --addtag {} {}",
      volume.path(), ClearedTag(*state.cleared_bytes), ClearedTag(state.volume.bytes), volume.path());
}

}  // namespace

absl::Status GrowVolumeIn(const Lvm& lvm, const LogicalVolumeName& name, std::uint64_t bytes) {
  MOORING_ASSIGN_OR_RETURN(const LvmVolume volume, ParseLvmVolume(name.pool, name.name));
  MOORING_RETURN_IF_ERROR(CheckNoLvmLingers());
  MOORING_ASSIGN_OR_RETURN(const LvmState state, ReadFully(lvm, volume.pool));
  const LvmVolumeState* const before = FindFinished(state, volume.name);
  if (before == nullptr) return NotFound("logical volume {} does not exist", volume.path());
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t wanted, RoundUpToExtents(bytes, state));
  MOORING_RETURN_IF_ERROR(GiveDeviceItsSize(lvm, volume, before->volume));
  const std::uint64_t had = before->volume.bytes;
  MOORING_RETURN_IF_ERROR(CheckNotEnlarged(volume, *before));
  if (had >= wanted && !before->volume.is_growing) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckCanGrow(state, volume.pool, had, wanted));
  return before->cleared_bytes ? GrowCleared(lvm, name, volume, *before, wanted)
                               : GrowPlain(lvm, volume, before->volume, wanted);
}

}  // namespace mooring
