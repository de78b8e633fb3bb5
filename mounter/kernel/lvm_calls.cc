#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file/directory.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/loop/loop_device.h"
#include "mounter/loop/raw_device.h"
#include "mounter/lvm/volume_calls.h"
#include "mounter/sys/device_name.h"

namespace mooring {
namespace {

constexpr std::string_view kMooringLabel = "mooring";  // as plugin/model/volume_mount.h, kLabelPrefix

// The loop devices of volumes, but for raw devices: HidingFilter hides all numbers of those. A device that hangs would
// hold up lvm as well.
absl::StatusOr<std::vector<std::string>> LoopsOfVolumes() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, ListLoops());
  std::vector<std::string> names;
  for (const LoopInfo& loop : loops) {
    const unsigned number = minor(loop.device_number);
    const bool is_ours = loop.raw || loop.hangs() || loop.label.starts_with(kMooringLabel);
    if (is_ours && !IsInRawRange(number)) names.push_back(fmt::format("loop{}", number));
  }
  return names;
}

// HidingFilter hides those of Mooring by their names, so that a host with many is not asked for each.
bool IsLogicalVolume(const std::string& device) {
  return device.starts_with("dm-") && FirstLine("/sys/class/block/" + device + "/dm/uuid").starts_with("LVM-");
}

// Hides the devices of tenants.
absl::StatusOr<Lvm> MakeLvm(const SourcePolicy& sources) {
  MOORING_ASSIGN_OR_RETURN(std::vector<std::string> hidden, LoopsOfVolumes());
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> devices, EntriesOf("/sys/class/block"));
  for (const std::string& device : devices) {
    if (device.starts_with("loop") || IsLogicalVolume(device)) continue;
    const std::optional<dev_t> number = BlockDeviceNumber(device);
    if (number && sources.IsVolumeDevice(*number)) hidden.push_back(device);
  }
  return Lvm(std::move(hidden));
}

}  // namespace

absl::StatusOr<LvmReport> KernelMounter::ReportLvm(const std::string& pool) {
  MOORING_ASSIGN_OR_RETURN(const Lvm lvm, MakeLvm(sources_));
  return ReportLvmPool(lvm, pool);
}

absl::Status KernelMounter::MakeLogicalVolume(const NewLogicalVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const Lvm lvm, MakeLvm(sources_));
  return MakeVolumeIn(lvm, volume);
}

absl::Status KernelMounter::GrowLogicalVolume(const LogicalVolumeName& volume, std::uint64_t bytes) {
  MOORING_ASSIGN_OR_RETURN(const Lvm lvm, MakeLvm(sources_));
  return GrowVolumeIn(lvm, volume, bytes);
}

absl::Status KernelMounter::ActivateLogicalVolume(const LogicalVolumeName& volume) {
  MOORING_ASSIGN_OR_RETURN(const Lvm lvm, MakeLvm(sources_));
  return ActivateVolumeIn(lvm, volume);
}

absl::Status KernelMounter::NoteRawLogicalVolume(const LogicalVolumeName& volume) {
  MOORING_ASSIGN_OR_RETURN(const Lvm lvm, MakeLvm(sources_));
  return NoteRawVolumeIn(lvm, volume);
}

absl::Status KernelMounter::RemoveLogicalVolume(const LogicalVolumeName& volume) {
  MOORING_ASSIGN_OR_RETURN(const Lvm lvm, MakeLvm(sources_));
  return RemoveVolumeIn(lvm, volume);
}

}  // namespace mooring
