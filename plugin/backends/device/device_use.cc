#include "plugin/backends/device/device_use.h"

#include <string>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_mount.h"

namespace mooring {
namespace {

absl::Status InUse(const std::string& how) {
  return FailedPrecondition("the volume is in use on this host, {}: unpublish and unstage it first", how);
}

}  // namespace

absl::Status CheckDeviceNotMounted(Mounter& mounter, const KnownDevice& device) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, mounter.List("/"));
  const std::vector<KnownDevice> own = {device};
  for (const MountInfo& mount : mounts) {
    if (DeviceBehind(mount, own) != nullptr) return InUse("mounted at " + Quote(mount.target));
  }
  return absl::OkStatus();
}

absl::Status CheckDeviceNotClaimed(Mounter& mounter, const KnownDevice& device) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, mounter.FindLoops(device.node));
  for (const LoopInfo& loop : loops) {
    if (OwnerOf(loop) == device.volume_id) return InUse("through " + loop.device);
  }
  const absl::StatusOr<bool> claimed = mounter.IsInUse(device.node);
  if (MaySucceedLater(claimed.status())) return claimed.status();
  // A dead device cannot be opened. Nobody uses it.
  return claimed.ok() && *claimed ? InUse("mounted in another mount namespace, or claimed by another program")
                                  : absl::OkStatus();
}

bool DeviceHoldsData(Filesystems& filesystems, const absl::StatusOr<VolumeLocation>& location) {
  if (!location.ok()) return true;
  const absl::StatusOr<FilesystemInfo> found = filesystems.Probe(location->path);
  if (!found.ok() || found->content != FilesystemInfo::Content::kEmpty) return true;
  return location->raw && !found->whole;
}

}  // namespace mooring
