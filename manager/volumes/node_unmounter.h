// Takes a volume from its user on this host: unbind, unpublish, and unstage with the last user; also of broken mounts.
// Journal and kernel together tell who else uses a staged volume.
//
// Called under the lock of the volume, except IsAttached, IsMountedAnywhere, FindUnknownMounts and RemoveDirectories.
#pragma once

#include <sys/types.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/plugins/node_call.h"
#include "manager/volumes/attachment_journal.h"
#include "mounter/mounter.h"

namespace mooring::manager {

class NodeUnmounter {
 public:
  // All outlive it. `root`: that of volume_paths.h.
  NodeUnmounter(PluginDirectory& plugins, Mounts& kernel, const AttachmentJournal& journal, std::string root,
                const RetryPolicy& retry);

  // See VolumeMounter.
  absl::Status Unmount(const AttachmentRecord& record, Clock::time_point until);
  bool IsAttached(const AttachmentRecord& record);
  bool IsMountedAnywhere(const AttachmentRecord& record);
  absl::StatusOr<std::vector<std::string>> FindUnknownMounts(const Volume& volume);
  void RemoveDirectories(const Volume& volume);

  absl::Status CallUnpublish(const AttachmentRecord& record, Clock::time_point until);
  void UndoRefusedStage(AttachmentRecord& record, Clock::time_point until);
  absl::Status UnmountBroken(const AttachmentRecord& record, Clock::time_point until);
  absl::Status UnmountBrokenStage(const AttachmentRecord& record, Clock::time_point until);
  absl::Status UnbindBroken(const AttachmentRecord& record, const PathInfo& attached);

 private:
  absl::Status CallUnstage(const AttachmentRecord& record, Clock::time_point until);
  absl::Status Unpublish(const AttachmentRecord& record, Clock::time_point until);
  absl::Status Unstage(const AttachmentRecord& record, Clock::time_point until);
  absl::Status UnmountAllLayers(const std::string& path);
  absl::Status Unbind(const AttachmentRecord& record);
  absl::Status UnmountBelow(const AttachmentRecord& record);
  absl::StatusOr<bool> IsOurBind(const AttachmentRecord& record, const PathInfo& attached);
  absl::StatusOr<bool> HasOtherUsers(const AttachmentRecord& record);
  absl::Status CheckUnknownUsers(const AttachmentRecord& record, const std::vector<AttachmentRecord>& known);

  Mounts& kernel_;
  const AttachmentJournal& journal_;
  const std::string root_;
  NodeCaller calls_;  // unpublish and unstage: they are made without a lease, too

  using Filesystem = std::pair<dev_t, std::string>;  // the device, and the mounted part of it
  std::mutex unknown_mutex_;
  std::map<VolumeKey, std::set<Filesystem>> unknown_;  // those with mounts that no attachment has; under unknown_mutex_
};

}  // namespace mooring::manager
