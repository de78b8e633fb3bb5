// Finds other users of a staged volume in the journal and the kernel. Called under the lock of the volume.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/volumes/mounted.h"
#include "manager/volumes/volume_manager.h"
#include "manager/volumes/volume_paths.h"

namespace mooring::manager {
namespace {

// A missing directory has no entries.
absl::StatusOr<std::vector<std::string>> EntriesOf(const std::string& directory) {
  std::vector<std::string> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path().string());
  }
  const bool none = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !none) return ErrnoStatus(error.value(), "search for other users of the volume in", directory);
  return entries;
}

// All target paths of the volume. Read from the manager's directories, which are few, and not from the host's mount
// table.
absl::StatusOr<std::vector<std::string>> TargetsIn(const std::string& targets_of_volume) {
  std::vector<std::string> targets;
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> allocations, EntriesOf(targets_of_volume));
  for (const std::string& allocation : allocations) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> requests, EntriesOf(allocation));
    for (const std::string& request : requests) {
      MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> usages, EntriesOf(request));
      targets.insert(targets.end(), usages.begin(), usages.end());
    }
  }
  return targets;
}

std::set<std::string> PathsOf(const std::vector<AttachmentRecord>& records) {
  std::set<std::string> paths;
  for (const AttachmentRecord& record : records) {
    paths.insert({record.target_path, record.staging_path, record.attach_path});
  }
  return paths;
}

}  // namespace

// A record in phase mounted is a user, whatever the kernel shows: it will be restored or detached. A record in another
// phase is a user while its target is mounted: before that, its Mount waits for the lock and stages again.
absl::StatusOr<bool> VolumeManager::HasOtherUsers(const AttachmentRecord& record) {
  const std::vector<AttachmentRecord> known = journal_.Of(record.volume);
  for (const AttachmentRecord& other : known) {
    const bool is_self = other.allocation == record.allocation && other.request == record.request;
    if (is_self || other.staging_path != record.staging_path) continue;
    if (other.phase == AttachmentRecord::Phase::kMounted) return true;
    MOORING_ASSIGN_OR_RETURN(const PathInfo target, kernel_.Find(other.target_path));
    if (IsMountOrDevice(target)) return true;
  }
  MOORING_RETURN_IF_ERROR(CheckUnknownUsers(record, known));
  return false;
}

// Looks for mounts of the stage at targets of the volume that no record has. A lost journal leaves them, or a call that
// took effect after its caller gave up. An unknown mount is not unmounted. Stage and claim stay then, because the
// controller must not unpublish a volume with a mounted filesystem. The record of such a mount may also be damaged.
// Then it may be the device of a volume whose stage is no mount.
absl::Status VolumeManager::CheckUnknownUsers(const AttachmentRecord& record,
                                              const std::vector<AttachmentRecord>& known) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo staged, kernel_.Find(record.staging_path));
  const absl::Status readable = journal_.CheckReadable();
  if (!staged.mount && readable.ok()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> targets, TargetsIn(TargetsOf(settings_.root, record.volume)));
  for (const std::string& target : targets) {
    const bool is_known = std::any_of(known.begin(), known.end(),
                                      [&](const AttachmentRecord& other) { return other.target_path == target; });
    if (is_known) continue;
    MOORING_ASSIGN_OR_RETURN(const PathInfo published, kernel_.Find(target));
    if (!readable.ok() && IsMountOrDevice(published)) {
      return Annotate(readable, fmt::format("it stays staged, because {} may be in use", Quote(target)));
    }
    if (!published.mount || !staged.mount || published.mount->device != staged.mount->device) continue;
    return FailedPrecondition(
        "it stays staged at {}, because it is mounted at {}, which no attachment has: unmount that first",
        Quote(record.staging_path), Quote(target));
  }
  return absl::OkStatus();
}

// A mount at one of the volume's own paths tells its filesystem. Binds of the same filesystem elsewhere are found by
// that, also after the first one is unmounted. The journal is read last, because it has an attachment before its
// mounts.
absl::StatusOr<std::vector<std::string>> VolumeManager::FindUnknownMounts(const Volume& volume) {
  MOORING_ASSIGN_OR_RETURN(std::vector<std::string> own, TargetsIn(TargetsOf(settings_.root, volume.key)));
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> stages,
                           EntriesOf(StagingsOf(settings_.root, volume.plugin, volume.key)));
  own.insert(own.end(), stages.begin(), stages.end());
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, kernel_.List("/"));
  const std::set<std::string> known = PathsOf(journal_.Of(volume.key));
  const std::lock_guard<std::mutex> lock(unknown_mutex_);
  std::set<Filesystem>& unknown = unknown_[volume.key];
  for (const ListedMount& mount : mounts) {
    const bool is_own = std::find(own.begin(), own.end(), mount.target) != own.end();
    if (is_own && !known.contains(mount.target)) unknown.emplace(mount.device, mount.root);
  }
  std::vector<std::string> found;
  for (const ListedMount& mount : mounts) {
    if (unknown.contains({mount.device, mount.root}) && !known.contains(mount.target)) found.push_back(mount.target);
  }
  if (found.empty()) unknown_.erase(volume.key);
  return found;
}

}  // namespace mooring::manager
