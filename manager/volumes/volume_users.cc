// Who else uses a staged volume, (d) 5: the journal and the kernel together. Asked under the volume's lock.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/quote.h"
#include "base/status.h"
#include "manager/state/keys.h"
#include "manager/volumes/mounted.h"
#include "manager/volumes/volume_manager.h"

namespace mooring::manager {

// One that is written down as mounted is a user, whatever the kernel says: it is restored, or detached itself. One that
// is only about to be mounted, or being unmounted, is a user while something is at its target: before that its Mount
// waits for the lock, and stages anew.
absl::StatusOr<bool> VolumeManager::HasOtherUsers(const MountRecord& record) {
  const std::vector<MountRecord> known = journal_.Of(record.volume);
  for (const MountRecord& other : known) {
    const bool same = other.allocation == record.allocation && other.request == record.request;
    if (same || other.staging_path != record.staging_path) continue;
    if (other.phase == MountRecord::Phase::kMounted) return true;
    MOORING_ASSIGN_OR_RETURN(const PathInfo target, kernel_.Find(other.target_path));
    if (IsThere(target)) return true;
  }
  MOORING_RETURN_IF_ERROR(CheckUnknownUsers(record, known));
  return false;
}

// Mounted where only this volume is published in this usage, from what is staged, and in nobody's record: of a journal
// that was lost, or of a call that went through after everybody had given it up. Nothing here unmounts what it does not
// know: the stage stays, and so does the claim, for the controller must not unpublish below a filesystem in use.
absl::Status VolumeManager::CheckUnknownUsers(const MountRecord& record, const std::vector<MountRecord>& known) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo staged, kernel_.Find(record.staging_path));
  if (!staged.mount) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, kernel_.List(settings_.root + "/per-alloc"));
  const std::string end = fmt::format("/{}/{}/{}", Escape(record.volume.ns), Escape(record.volume.id), record.usage);
  for (const MountInfo& mount : mounts) {
    if (!mount.target.ends_with(end) || mount.device != staged.mount->device) continue;
    const bool is_known = std::any_of(known.begin(), known.end(),
                                      [&](const MountRecord& other) { return other.target_path == mount.target; });
    if (is_known) continue;
    return FailedPrecondition(
        fmt::format("it stays staged at {}, for it is mounted at {}, of which nothing is written "
                    "down: unmount that first",
                    Quote(record.staging_path), Quote(mount.target)));
  }
  return absl::OkStatus();
}

}  // namespace mooring::manager
