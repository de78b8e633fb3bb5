// The part of VolumeManager (volume_manager.h) that Attachments and Volumes use. Tests put a fake in its place that
// counts the calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"

namespace mooring::manager {

// The inputs of a mount that are not kept in its record.
struct MountContext {
  StringMap volume_context;
  StringMap publish_context;
  Secrets secrets;
  IsAbandoned is_abandoned = nullptr;  // asked before the first call to the plugin
};

class VolumeMounter {
 public:
  virtual ~VolumeMounter() = default;

  // Whether a bind mount can be made at attach_path. Sets made_attach_path if it is missing. INVALID_ARGUMENT: it is
  // within the manager's root. FAILED_PRECONDITION: it is a mount, is not empty, or has no parent directory.
  virtual absl::Status CheckAttachPath(AttachmentRecord& record) = 0;

  // Fills in external node id, usage, staging path (empty if the plugin stages nothing), target path and source. Waits
  // for the plugin.
  virtual absl::Status Prepare(AttachmentRecord& record, Clock::time_point until) = 0;

  // Stages, publishes, and binds the target at attach_path: each step only if the kernel does not show its mount. The
  // caller has put `record` into the journal before, so that it counts as a user of the stage. An error names the step
  // and leaves the earlier ones; Unmount undoes them, also a step whose outcome is unknown. Sets record.boot and
  // record.attach_mount_id. RESOURCE_EXHAUSTED: from the plugin only; a lack of room on the host is
  // FAILED_PRECONDITION.
  virtual absl::Status Mount(AttachmentRecord& record, const MountContext& context, Clock::time_point until) = 0;

  // Removes the bind and the publication, and the stage with the last user of its staging path. NOT_FOUND from the
  // plugin, a missing target and a record that was never prepared are OK. Afterwards nothing is mounted, and only the
  // directories of the volume are left.
  virtual absl::Status Unmount(const AttachmentRecord& record, Clock::time_point until) = 0;

  // Whether the user of the record still sees a mount of it: at attach_path, or without one at the target. Asks only
  // the kernel. True if the kernel does not tell.
  virtual bool IsAttached(const AttachmentRecord& record) = 0;

  // Whether the kernel shows a mount of the record: at attach_path, the target, or the staging path if no mounted
  // attachment uses that as well. True if the kernel does not tell. (A raw volume that is only staged shows none.)
  virtual bool IsMountedAnywhere(const AttachmentRecord& record) = 0;

  // Waits for the plugin, then asks the kernel. A broken mount (ENOTCONN, ESTALE, EIO) is unmounted, and counts as
  // none.
  virtual absl::StatusOr<bool> HasMount(const AttachmentRecord& record, Clock::time_point until) = 0;

  // The mounts of the volume that no attachment has: the journal may be an old copy, for example.
  virtual absl::StatusOr<std::vector<std::string>> FindUnknownMounts(const Volume& volume) = 0;

  // Calls NodeExpandVolume for each filesystem of the volume on this host. False: it is mounted nowhere.
  virtual absl::StatusOr<bool> Expand(const VolumeKey& volume, std::uint64_t bytes, const Secrets& secrets,
                                      Clock::time_point until) = 0;

  // Calls NodeExpandVolume for a record that was just mounted. False: it is read-only, so nothing was expanded.
  virtual absl::StatusOr<bool> ExpandMounted(const AttachmentRecord& record, std::uint64_t bytes,
                                             const Secrets& secrets, Clock::time_point until) = 0;

  // Removes the directories that were kept for the next user of a volume which is deleted now.
  virtual void RemoveDirectories(const Volume& volume) = 0;
};

}  // namespace mooring::manager
