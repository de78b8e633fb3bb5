// The volumes and snapshots the manager knows: created and deleted through their plugin's controller, or registered and
// forgotten; (f) 1, 9, (k) 2, 3, 6.
#ifndef MOORING_MANAGER_VOLUMES_VOLUMES_H_
#define MOORING_MANAGER_VOLUMES_VOLUMES_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/keyed_lock.h"
#include "manager/csi/csi_channel.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/volumes/volume_mounter.h"

namespace mooring::manager {

struct Snapshot {
  std::string id;  // the plugin's
  std::string plugin;
  std::string source_volume_id;  // the plugin's id of it
  std::optional<VolumeKey> source;
  std::uint64_t bytes = 0;
  Time made_at = {};
  bool ready = false;
};

class Volumes {
 public:
  // All outlive it. `node` expands what is in use here.
  Volumes(RecordsStore& store, PluginDirectory& plugins, VolumeMounter& node, KeyedLocks& controller_locks,
          Events& events, RetryPolicy retry);

  // The record first (creating), then CreateVolume, then the rest of the record: the same request again goes on where a
  // killed one stopped. ALREADY_EXISTS: one of that key that is not the same. Where nobody can know whether the plugin
  // made it, the record stays, and the message says what to do.
  absl::StatusOr<Volume> Create(Volume volume, Clock::time_point until);

  // One that the plugin has already: asks it by ValidateVolumeCapabilities, where it has a controller. ALREADY_EXISTS:
  // one of that key that is not the same, or the plugin's volume has another key here: claims would not see each other.
  absl::StatusOr<Volume> Register(Volume volume, Clock::time_point until);

  // (f) 9. `volume.revisions.modify`: 0, or the one it must have still, else ABORTED (k) 2. Secrets: those given; none
  // given: those there are stay where has_secrets is set, else they go.
  absl::StatusOr<Volume> Update(const Volume& volume);

  // The claims are asked first, then the plugin, (k) 6. One that was registered is DeleteVolume'd, too. Gone is OK.
  absl::Status Delete(const VolumeKey& key, Clock::time_point until);
  // Only forgotten; refused while it is claimed. Gone is OK.
  absl::Status Deregister(const VolumeKey& key, Clock::time_point until);

  // At the controller, then on this node where that has to be and it is mounted; where it is not, the next mount does
  // that (Volume::node_expansion_owed). Gives the new capacity.
  absl::StatusOr<Volume> Expand(const VolumeKey& key, std::uint64_t min_bytes, std::uint64_t max_bytes,
                                Clock::time_point until);

  absl::StatusOr<Volume> Get(const VolumeKey& key);
  absl::StatusOr<std::vector<Volume>> List(const std::string& ns);  // "": of all

  absl::StatusOr<Snapshot> CreateSnapshot(const VolumeKey& key, const std::string& name, const StringMap& parameters,
                                          Clock::time_point until);
  absl::Status DeleteSnapshot(const std::string& plugin, const std::string& snapshot_id, const Secrets& secrets,
                              Clock::time_point until);
  absl::StatusOr<std::vector<Snapshot>> ListSnapshots(const std::string& plugin, Clock::time_point until);

  // For the start: volumes whose creation or deletion was cut short. A creation is taken back (DeleteVolume by what
  // CreateVolume answers to the same name), a deletion goes on. Plugins side by side; errors are events.
  void Resume(Clock::time_point until);

  void Stop();  // ends the waiting for locks of its own

 private:
  // volumes.cc
  absl::StatusOr<Volume> Stored(Volume volume);  // put as it is; ABORTED: it was changed since it was read
  absl::Status RefuseTwin(const Volume& volume);
  absl::StatusOr<Volume> StoredAlone(Volume volume, Clock::time_point until);
  absl::StatusOr<PluginStatus> FindPlugin(const std::string& name);
  absl::StatusOr<PluginTraits> Controller(const std::string& plugin, Clock::time_point until);
  absl::StatusOr<Volume> GetReady(const VolumeKey& key);
  void Tell(const Volume& volume, bool bad, const std::string& text);

  // volumes_create.cc
  static bool MadeNothing(const absl::Status& status);
  absl::StatusOr<Volume> BeginCreate(Volume volume, Clock::time_point until);
  enum class Since { kNow, kBefore };  // this request, or one before
  absl::StatusOr<Volume> FinishCreate(Volume volume, Since begun, Clock::time_point until);
  absl::StatusOr<Volume> CallCreate(Volume volume, Clock::time_point until);
  absl::Status Validate(const Volume& volume, Clock::time_point until);

  // volumes_delete.cc
  absl::Status CheckUnclaimed(const VolumeKey& key);
  enum class Which { kAny, kCutShort };  // kCutShort: one that is ready stays, as if it were gone
  absl::StatusOr<bool> DeleteIf(const VolumeKey& key, Which which, Clock::time_point until);  // whether it did
  absl::StatusOr<std::optional<Volume>> ToDelete(const VolumeKey& key, Which which);
  absl::StatusOr<std::optional<Volume>> BeginDelete(const VolumeKey& key, Which which);
  void ResumeOne(const Volume& cut_short, Clock::time_point until);
  absl::Status FinishDelete(Volume volume, Clock::time_point until);
  absl::Status EndDelete(Volume volume);
  absl::Status Forget(const VolumeKey& key);

  // volumes_expand.cc
  absl::StatusOr<Volume> StoredAs(Volume volume, const std::function<void(Volume&)>& change);
  absl::StatusOr<Volume> ExpandOnNode(Volume volume, const Volume& before, bool at_controller, Clock::time_point until);
  absl::Status NotExpanded(Volume volume, const Volume& before, const absl::Status& why);
  struct Expansion {
    std::uint64_t bytes = 0;
    bool at_controller = false;  // done there; else it is the node's alone
    bool node_too = false;
  };
  absl::StatusOr<Expansion> ExpandAtController(const Volume& volume, std::uint64_t min_bytes, std::uint64_t max_bytes,
                                               Clock::time_point until);

  // snapshots.cc
  absl::StatusOr<PluginTraits> SnapshotTraits(const std::string& plugin, Clock::time_point until);

  RecordsStore& store_;
  PluginDirectory& plugins_;
  VolumeMounter& node_;
  KeyedLocks& controller_locks_;
  Events& events_;
  const RetryPolicy retry_;
  KeyedLocks twin_locks_;  // by plugin and its id of the volume
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_VOLUMES_VOLUMES_H_
