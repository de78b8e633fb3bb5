#include "plugin/node/stage/loop_stager.h"

#include <algorithm>
#include <optional>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/loop/settle.h"
#include "plugin/model/volume_mount.h"

namespace mooring {
namespace {

// Another program's loop device over the image is an unknown use of the volume. Devices on top of a block device are
// allowed.
absl::Status CheckLoopsAreOurs(const std::vector<LoopInfo>& loops, const NodeVolume& volume) {
  for (const LoopInfo& loop : loops) {
    if (loop.backing_rdev != 0 || OwnerOf(loop) == volume.id || (loop.raw && loop.label.empty())) continue;
    return FailedPrecondition("volume {} is in use through {} ({}), which this driver did not make: end that use first",
                              volume.id, loop.device, Quote(loop.label));
  }
  return absl::OkStatus();
}

bool AnyInUseAsFilesystem(const std::vector<LoopInfo>& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [](const LoopInfo& loop) { return !loop.raw && loop.auto_clear && loop.mounted; });
}

// Waits for devices that disappear. A device disappears a moment after its last user, and later if another program
// inspects it. A mounted device without a known use is the unattached mount of a killed process.
absl::StatusOr<std::vector<LoopInfo>> LoopsThatStay(LoopDevices& devices, const std::string& path, bool known_use) {
  const auto is_going = [&](const LoopInfo& loop) {
    if (loop.raw) return loop.is_going();
    return loop.auto_clear && !(loop.mounted && known_use);
  };
  return AskUntilSettled([&] { return devices.FindLoops(path); },
                         [&](const auto& loops) { return std::any_of(loops.begin(), loops.end(), is_going); });
}

}  // namespace

// Returns whether the image is mounted elsewhere. Otherwise it releases the devices of an interrupted block use.
absl::StatusOr<bool> LoopStager::ReleaseUnlessMounted(const StageSpec& spec, const NodeVolume& volume) {
  const auto is_mounted_elsewhere = [&](const VolumeUse& use) {
    return use.path != spec.staging_path && use.access_type == AccessType::kMount;
  };
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, finder_.FindLive(volume.id, is_mounted_elsewhere));
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, LoopsThatStay(mounter_, volume.path, known.has_value()));
  MOORING_RETURN_IF_ERROR(CheckLoopsAreOurs(loops, volume));
  if (AnyInUseAsFilesystem(loops)) return true;
  if (loops.empty()) return false;
  MOORING_RETURN_IF_ERROR(devices_.Release(volume.id));
  MOORING_ASSIGN_OR_RETURN(loops, LoopsThatStay(mounter_, volume.path, known.has_value()));
  if (loops.empty()) return false;
  return FailedPrecondition("volume {} is in use as a block device ({}): unstage that first", volume.id,
                            loops.front().device);
}

absl::Status LoopStager::StageFilesystem(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_RETURN_IF_ERROR(filesystems_.CheckSameOptions(spec));
  MOORING_ASSIGN_OR_RETURN(const bool in_use, ReleaseUnlessMounted(spec, volume));
  return filesystems_.Stage(spec, volume, in_use);
}

absl::Status LoopStager::StageBlock(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, mounter_.FindLoops(volume.path));
  MOORING_RETURN_IF_ERROR(CheckLoopsAreOurs(loops, volume));
  if (AnyInUseAsFilesystem(loops)) {
    return FailedPrecondition(
        "volume {} is in use as a filesystem ({}): raw access would destroy it; unpublish and unstage it first",
        volume.id, loops.front().device);
  }
  if (loops.empty()) MOORING_RETURN_IF_ERROR(CheckWhole(volume));
  return AttachOnRecord(spec, volume);
}

absl::Status LoopStager::AttachOnRecord(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> before, store_.Get(spec.staging_path));
  VolumeUse use = StagedUse(spec);
  MOORING_RETURN_IF_ERROR(store_.Put(use));
  const absl::StatusOr<LoopInfo> loop = devices_.Attach(volume);
  use.device = loop.ok() ? loop->device : "";
  use.done = true;
  absl::Status staged = loop.ok() ? store_.Put(use) : Unexpected(loop.status());
  if (staged.ok() && volume.tuning.read_ahead_bytes != 0) staged = Unexpected(devices_.Tune(volume, *loop));
  if (staged.ok()) return staged;
  // A failed repetition must not delete the record of the first call.
  (before ? store_.Put(*before) : store_.Delete(spec.staging_path)).IgnoreError();
  if (!before) devices_.Release(spec.volume_id, spec.staging_path).IgnoreError();
  return staged;
}

}  // namespace mooring
