// The growth of logical volumes. A cleared thick volume gets extents that hold the bytes of their former owners, so it
// has no device for anybody meanwhile:
//
//   lvchange -an ─▶ lvextend ─▶ lvchange -ay ─▶ clear from BYTES on ─▶ mooring_cleared_SIZE
//
// Until the last step the tag mooring_cleared_BYTES tells how much is cleared. So a call after an interruption goes on.
#include <fcntl.h>

#include <algorithm>

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

absl::Status ClearFrom(const Lvm& lvm, const LvmVolume& volume, std::uint64_t from, std::uint64_t tagged) {
  // Nobody can mount it meanwhile.
  MOORING_ASSIGN_OR_RETURN(const LvmDevice device, LvmDevice::Open(volume.pool, volume.name, O_WRONLY | O_EXCL));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, device.Bytes());
  MOORING_RETURN_IF_ERROR(device.Clear(from));
  if (bytes == tagged) return absl::OkStatus();
  return ChangeMetadata(lvm, volume, {"--deltag", ClearedTag(tagged), "--addtag", ClearedTag(bytes)});
}

absl::Status ExtendAndClear(const Lvm& lvm, const LvmVolume& volume, const LvmVolumeState& before,
                            std::uint64_t wanted) {
  if (before.volume.bytes < wanted) MOORING_RETURN_IF_ERROR(Extend(lvm, volume, wanted));
  MOORING_RETURN_IF_ERROR(GiveDevice(lvm, volume));
  return ClearFrom(lvm, volume, ClearedOf(before), *before.cleared_bytes);
}

absl::Status GrowCleared(const Lvm& lvm, const LvmVolume& volume, const LvmVolumeState& before, std::uint64_t wanted) {
  MOORING_RETURN_IF_ERROR(TakeDevice(lvm, volume));
  const absl::Status done = ExtendAndClear(lvm, volume, before, wanted);
  if (!done.ok()) {
    log::WarningIfFailed(GiveDevice(lvm, volume), "a logical volume that did not grow has no device now",
                         {{"volume", volume.path()}});
  }
  return done;
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
  const bool must_clear = before->cleared_bytes && ClearedOf(*before) < std::max(had, wanted);
  if (had >= wanted && !must_clear) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckCanGrow(state, volume.pool, had, wanted));
  return must_clear ? GrowCleared(lvm, volume, *before, wanted) : Extend(lvm, volume, wanted);
}

}  // namespace mooring
