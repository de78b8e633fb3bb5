// The node side of one volume for one user, as Attachments sees it. VolumeManager (volume_manager.h) does it; a fake
// that counts its calls stands in for it in tests.
#ifndef MOORING_MANAGER_VOLUMES_VOLUME_MOUNTER_H_
#define MOORING_MANAGER_VOLUMES_VOLUME_MOUNTER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"

namespace mooring::manager {

// What a mount needs beside its record; none of it is kept in the record.
struct MountContext {
  StringMap volume_context;
  StringMap publish_context;
  Secrets secrets;
};

class VolumeMounter {
 public:
  virtual ~VolumeMounter() = default;

  // Before anything is claimed: whether attach_path can take a bind. Sets made_attach_path where it is to be made.
  // INVALID_ARGUMENT: within the manager's own root. FAILED_PRECONDITION: a mount already, not empty, no parent.
  virtual absl::Status CheckPlace(AttachmentRecord& record) = 0;

  // Fills in what depends on plugin, volume and request: external node id, usage, staging path (empty where the plugin
  // stages nothing), target path, source. Waits for the plugin.
  virtual absl::Status Prepare(AttachmentRecord& record, Clock::time_point until) = 0;

  // Stages where that is needed and not done, publishes where that is not done, binds at attach_path where there is
  // one: each only if the kernel does not have it. `record` is in the journal already: that claims the usage. A failure
  // says which step it was and leaves what was done by then: Unmount takes it back, and is the negating call where
  // nobody knows whether a step was done. Sets record.attach_mount_id. RESOURCE_EXHAUSTED: the plugin said so; what
  // this host has no room for is INTERNAL.
  virtual absl::Status Mount(AttachmentRecord& record, const MountContext& context, Clock::time_point until) = 0;

  // The reverse: the bind, the publication, and with the last user of its staging path the stage, too. NOT_FOUND by the
  // plugin, or a target that is gone, is OK, and so is a record that was never prepared. Afterwards nothing of it is
  // mounted, and its directories are gone but for the volume's.
  virtual absl::Status Unmount(const AttachmentRecord& record, Clock::time_point until) = 0;

  // Asks the kernel, not the plugin, once the plugin is there (e) 2. A mount that is broken (ENOTCONN, ESTALE, EIO) is
  // taken down and is no mount.
  virtual absl::StatusOr<bool> HasMount(const AttachmentRecord& record, Clock::time_point until) = 0;

  // NodeExpandVolume, with both paths, of every place where the volume is mounted here. False: there is none.
  virtual absl::StatusOr<bool> Expand(const VolumeKey& volume, std::uint64_t bytes, const Secrets& secrets,
                                      Clock::time_point until) = 0;

  // Of one that was just mounted, whatever the journal says. False: through a read-only mount nothing is expanded.
  virtual absl::StatusOr<bool> ExpandMounted(const AttachmentRecord& record, std::uint64_t bytes,
                                             const Secrets& secrets, Clock::time_point until) = 0;

  // Of a volume that is no more: the directories that were kept for its next user.
  virtual void RemovePlaces(const Volume& volume) = 0;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_VOLUMES_VOLUME_MOUNTER_H_
