// Stages and publishes volumes on this host through their plugins: the volume manager, (d).
//
//   Mount    lock (namespace, volume) ─▶ stage? ─▶ publish? ─▶ bind at the user's path? ─▶ unlock
//   Unmount  lock ─▶ unbind ─▶ unpublish ─▶ last user of the staging path? ─▶ unstage ─▶ unlock
//
// One operation at a time for a volume, volumes in parallel; a waiter whose deadline passes gets an error. Whether
// something is mounted is what the kernel says; who else uses a staged volume is what kernel and journal say together.
#ifndef MOORING_MANAGER_VOLUMES_VOLUME_MANAGER_H_
#define MOORING_MANAGER_VOLUMES_VOLUME_MANAGER_H_

#include <string>

#include "base/keyed_lock.h"
#include "manager/events.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/volumes/mount_journal.h"
#include "manager/volumes/volume_mounter.h"
#include "mounter/mounter.h"

namespace mooring::manager {

class VolumeManager final : public VolumeMounter {
 public:
  struct Settings {
    std::string root;  // what volume_paths.h calls <root>: shared, so that what plugins mount below arrives here
    RetryPolicy retry;
  };

  // All outlive it.
  VolumeManager(PluginDirectory& plugins, Mounts& kernel, const MountJournal& journal, Events& events,
                Settings settings);

  absl::Status Prepare(MountRecord& record, Clock::time_point until) override;
  absl::Status Mount(MountRecord& record, const MountContext& context, Clock::time_point until) override;
  absl::Status Unmount(const MountRecord& record, Clock::time_point until) override;
  absl::StatusOr<bool> HasMount(const MountRecord& record, Clock::time_point until) override;
  absl::Status Expand(const VolumeKey& volume, std::uint64_t bytes, const Secrets& secrets,
                      Clock::time_point until) override;

  void Stop();  // ends the waiting for locks

 private:
  PluginDirectory& plugins_;
  Mounts& kernel_;
  const MountJournal& journal_;
  Events& events_;
  const Settings settings_;
  KeyedLocks locks_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_VOLUMES_VOLUME_MANAGER_H_
