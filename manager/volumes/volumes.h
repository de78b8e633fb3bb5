// The volumes that the manager knows: created and deleted through the controller of their plugin, or
// registered and deregistered.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_lock.h"
#include "manager/csi/csi_channel.h"
#include "manager/hosts/host_directory.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/volumes/snapshots.h"
#include "manager/volumes/volume_creator.h"
#include "manager/volumes/volume_mounter.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

class Volumes {
 public:
  // All outlive it. `node` expands volumes that are mounted on this host.
  Volumes(RecordsStore& store, PluginDirectory& plugins, HostDirectory& hosts, VolumeMounter& node,
          Snapshots& snapshots, KeyedLocks& controller_locks, Events& events, WorkQueue& queue, RetryPolicy retry);

  // Stores the record (creating), calls CreateVolume, completes the record. A repeated request continues an interrupted
  // one. ALREADY_EXISTS: the key has another volume. If it is unknown whether the plugin created the volume, the record
  // stays and the message says what to do.
  // ABORTED: the caller has gone away before anything was done, as for Delete and Deregister.
  absl::StatusOr<Volume> Create(Volume volume, Clock::time_point until, const IsAbandoned& is_abandoned = nullptr) {
    return creator_.Create(std::move(volume), until, is_abandoned);
  }

  // Registers a volume that the plugin has. A plugin with a controller is asked by ValidateVolumeCapabilities.
  // ALREADY_EXISTS: the key has another volume, or the plugin's volume has another key; claims on two keys of one
  // volume would not exclude each other. INTERNAL: the record of another volume is damaged, so that cannot be excluded.
  absl::StatusOr<Volume> Register(Volume volume, Clock::time_point until) {
    return creator_.Register(std::move(volume), until);
  }

  // Changes the fields that may change (CheckUpdate). `volume.revisions.modify`: 0, or the revision that the record
  // must have, else ABORTED. If `volume` has no secrets, the stored ones stay with has_secrets, and are deleted
  // without it.
  absl::StatusOr<Volume> Update(const Volume& volume);

  // Refused while the volume is claimed. Calls DeleteVolume for registered volumes, too. OK if it does not exist.
  absl::Status Delete(const VolumeKey& key, Clock::time_point until, const IsAbandoned& is_abandoned = nullptr);
  // Deletes only the record. Refused while the volume is claimed. OK if it does not exist.
  absl::Status Deregister(const VolumeKey& key, Clock::time_point until, const IsAbandoned& is_abandoned = nullptr);

  // Expands at the controller, then on this node if the plugin asks for it and the volume is mounted. Otherwise the
  // next mount expands it (Volume::node_expansion_owed). Returns the volume with its new capacity.
  absl::StatusOr<Volume> Expand(const VolumeKey& key, std::uint64_t min_bytes, std::uint64_t max_bytes,
                                Clock::time_point until);

  absl::StatusOr<Volume> Get(const VolumeKey& key) { return store_.GetVolume(key); }
  absl::StatusOr<std::vector<Volume>> List(const std::string& ns) { return store_.ListVolumes(ns); }  // empty: all

  // In the background, until they succeed: undoes creations that `host` has not finished, and continues its deletions.
  // (A repeated CreateVolume tells the id for DeleteVolume.) Finishes or undoes its snapshots. Errors become events.
  // Called for this host at the start, and for hosts that are away. An error: the state cannot be read.
  absl::Status Resume(const std::string& host);
  bool WaitUntilTried(Clock::time_point until) {  // what was resumed
    return work_.WaitUntilTried(until) && snapshots_.WaitUntilTried(until);
  }

 private:
  absl::StatusOr<Volume> ChangeReady(const VolumeKey& key, const std::function<void(Volume&)>& change);
  void Report(const Volume& volume, bool bad, const std::string& text);

  absl::Status CheckUnclaimed(const VolumeKey& key);
  enum class Which { kAny, kInterrupted };  // kInterrupted: a volume that is ready is left alone
  absl::StatusOr<bool> DeleteIf(const VolumeKey& key, Which which, Clock::time_point until,
                                const IsAbandoned& is_abandoned = nullptr);  // whether it did
  absl::StatusOr<std::optional<Volume>> ToDelete(const VolumeKey& key, Which which);
  absl::StatusOr<std::optional<Volume>> BeginDelete(const VolumeKey& key, Which which);
  absl::Status ResumeOne(const Volume& interrupted, std::string& said);
  absl::Status FinishDelete(Volume volume, Clock::time_point until);
  absl::Status DeleteRecord(const Volume& of);

  absl::StatusOr<Volume> ExpandOnNode(Volume volume, const Volume& before, bool at_controller, Clock::time_point until);
  absl::Status NotExpanded(const Volume& before, const absl::Status& why);
  struct Expansion {
    std::uint64_t bytes = 0;
    bool at_controller = false;  // false: only the node expands
    bool node_too = false;
  };
  absl::StatusOr<Expansion> ExpandAtController(const Volume& volume, std::uint64_t min_bytes, std::uint64_t max_bytes,
                                               Clock::time_point until);

  RecordsStore& store_;
  PluginDirectory& plugins_;
  HostDirectory& hosts_;
  VolumeMounter& node_;
  Snapshots& snapshots_;
  KeyedLocks& controller_locks_;
  Events& events_;
  const RetryPolicy retry_;
  VolumeCreator creator_;
  WorkKind work_;  // last: its attempts use all of the above
};

}  // namespace mooring::manager
