// Stages and publishes volumes on this host through their plugins.
//
//   Mount    lock (namespace, volume) ─▶ stage? ─▶ publish? ─▶ bind at the user's path? ─▶ unlock
//   Unmount  lock ─▶ unbind ─▶ unpublish ─▶ last user of the staging path? ─▶ unstage ─▶ unlock
//
// A volume has one operation at a time, and volumes run in parallel. A waiter whose deadline passes gets an error. The
// kernel tells what is mounted. Kernel and journal together tell who else uses a staged volume.
#pragma once

#include <string>
#include <vector>

#include "base/keyed_lock.h"
#include "manager/plugins/node_call.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/events.h"
#include "manager/volumes/attachment_journal.h"
#include "manager/volumes/node_unmounter.h"
#include "manager/volumes/server_check.h"
#include "manager/volumes/volume_mounter.h"
#include "mounter/mounter.h"

namespace mooring::manager {

class VolumeManager final : public VolumeMounter {
 public:
  struct Settings {
    std::string root;  // <root> of volume_paths.h; a shared mount, so that mounts of plugins below it are seen here
    std::string boot = {};  // boot id of the running kernel
    RetryPolicy retry;
  };

  // All outlive it.
  VolumeManager(PluginDirectory& plugins, Mounts& kernel, const AttachmentJournal& journal, Events& events,
                Settings settings);

  absl::Status CheckAttachPath(AttachmentRecord& record) override;
  absl::Status Prepare(AttachmentRecord& record, Clock::time_point until) override;
  absl::Status Mount(AttachmentRecord& record, const MountContext& context, Clock::time_point until) override;
  absl::Status Unmount(const AttachmentRecord& record, Clock::time_point until) override;
  bool IsAttached(const AttachmentRecord& record) override { return unmounter_.IsAttached(record); }
  bool IsMountedAnywhere(const AttachmentRecord& record) override { return unmounter_.IsMountedAnywhere(record); }
  absl::StatusOr<bool> HasMount(const AttachmentRecord& record, Clock::time_point until) override;
  absl::StatusOr<std::vector<std::string>> FindUnknownMounts(const Volume& volume) override {
    return unmounter_.FindUnknownMounts(volume);
  }
  absl::StatusOr<bool> Expand(const VolumeKey& volume, std::uint64_t bytes, const Secrets& secrets,
                              Clock::time_point until) override;
  absl::StatusOr<bool> ExpandMounted(const AttachmentRecord& record, std::uint64_t bytes, const Secrets& secrets,
                                     Clock::time_point until) override;
  void RemoveDirectories(const Volume& volume) override { unmounter_.RemoveDirectories(volume); }

  void Stop() { locks_.Stop(Stopping()); }  // waiters for locks, now and later, get CANCELLED

 private:
  absl::StatusOr<KeyedLocks::Hold> Lock(const VolumeKey& volume, Clock::time_point until);
  void Report(const std::string& kind, const AttachmentRecord& record, const absl::Status& status);
  absl::StatusOr<bool> ExpandAt(const AttachmentRecord& record, std::uint64_t bytes, const Secrets& secrets,
                                Clock::time_point until);
  void ChooseStage(AttachmentRecord& record);
  absl::StatusOr<PathInfo> Inspect(const std::string& path);  // Mounts::Find and ServerCheck
  bool IsPublished(const AttachmentRecord& record, const PathInfo& target) const;
  absl::Status MountLocked(AttachmentRecord& record, const MountContext& context, Clock::time_point until);
  absl::Status Stage(const AttachmentRecord& record, const MountContext& context, Clock::time_point until);
  absl::Status Publish(AttachmentRecord& record, const MountContext& context, Clock::time_point until);
  absl::Status RemoveBareTarget(const std::string& path, const PathInfo& target);
  absl::Status EnsureReadOnly(const AttachmentRecord& record, const PathInfo& target);
  absl::Status CheckArrived(const AttachmentRecord& record);
  absl::Status BindForUser(AttachmentRecord& record);

  PluginDirectory& plugins_;
  Mounts& kernel_;
  const AttachmentJournal& journal_;
  Events& events_;
  const Settings settings_;
  NodeCaller calls_;
  NodeUnmounter unmounter_;
  ServerCheck servers_;
  KeyedLocks locks_;
};

}  // namespace mooring::manager
