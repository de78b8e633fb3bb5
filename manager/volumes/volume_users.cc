// Who else uses a staged volume, (d) 5: the journal and the kernel together. Asked under the volume's lock.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/volumes/mounted.h"
#include "manager/volumes/volume_manager.h"
#include "manager/volumes/volume_paths.h"

namespace mooring::manager {
namespace {

// None of what is gone: then nothing is mounted below it.
absl::StatusOr<std::vector<std::string>> EntriesOf(const std::string& directory) {
  std::vector<std::string> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path().string());
  }
  const bool none = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !none) {
    return ErrnoStatus(error.value(), "look for other users of the volume in", directory);
  }
  return entries;
}

// Where an allocation may have it published, in any usage: readers and writers share a stage. By the directories, which
// are few and the manager's own: the mount table is the whole host's.
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

}  // namespace

// One that is written down as mounted is a user, whatever the kernel says: it is restored, or detached itself. One that
// is only about to be mounted, or being unmounted, is a user while something is at its target: before that its Mount
// waits for the lock, and stages anew.
absl::StatusOr<bool> VolumeManager::HasOtherUsers(const AttachmentRecord& record) {
  const std::vector<AttachmentRecord> known = journal_.Of(record.volume);
  for (const AttachmentRecord& other : known) {
    const bool same = other.allocation == record.allocation && other.request == record.request;
    if (same || other.staging_path != record.staging_path) continue;
    if (other.phase == AttachmentRecord::Phase::kMounted) return true;
    MOORING_ASSIGN_OR_RETURN(const PathInfo target, kernel_.Find(other.target_path));
    if (IsThere(target)) return true;
  }
  MOORING_RETURN_IF_ERROR(CheckUnknownUsers(record, known));
  return false;
}

// Mounted where only this volume is published, from what is staged, and in nobody's record: of a journal
// that was lost, or of a call that went through after everybody had given it up. Nothing here unmounts what it does not
// know: the stage stays, and so does the claim, for the controller must not unpublish below a filesystem in use.
absl::Status VolumeManager::CheckUnknownUsers(const AttachmentRecord& record,
                                              const std::vector<AttachmentRecord>& known) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo staged, kernel_.Find(record.staging_path));
  if (!staged.mount) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> targets, TargetsIn(TargetsOf(settings_.root, record.volume)));
  for (const std::string& target : targets) {
    const bool is_known = std::any_of(known.begin(), known.end(),
                                      [&](const AttachmentRecord& other) { return other.target_path == target; });
    if (is_known) continue;
    MOORING_ASSIGN_OR_RETURN(const PathInfo published, kernel_.Find(target));
    if (!published.mount || published.mount->device != staged.mount->device) continue;
    return FailedPrecondition(
        fmt::format("it stays staged at {}, for it is mounted at {}, of which nothing is written "
                    "down: unmount that first",
                    Quote(record.staging_path), Quote(target)));
  }
  return absl::OkStatus();
}

}  // namespace mooring::manager
