// Snapshots of volumes: taken, listed and deleted through the controllers of their plugin.
//
// The manager stores a record of each snapshot that it takes, before it calls the plugin. So every host knows from
// where a snapshot can be reached. Snapshots that other programs have taken have no record: all controllers are asked
// about them (plugin_snapshots.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/keyed_lock.h"
#include "manager/csi/csi_channel.h"
#include "manager/hosts/host_directory.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"
#include "manager/volumes/plugin_snapshots.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

struct SnapshotList {
  std::vector<Snapshot> snapshots;
  std::string problem;  // why snapshots without a record may be missing; empty: none are
};

class Snapshots {
 public:
  // All outlive it.
  Snapshots(RecordsStore& store, PluginDirectory& plugins, HostDirectory& hosts, KeyedLocks& controller_locks,
            Events& events, WorkQueue& queue, RetryPolicy retry);

  // Stores the record, calls CreateSnapshot, completes the record. A repeated request with the same name gives the same
  // snapshot of the volume. If it is unknown whether the plugin has taken the snapshot, the record stays. Then the call
  // is repeated in the background. After five minutes the snapshot is not wanted any more, and is undone.
  absl::StatusOr<Snapshot> Create(const VolumeKey& source, const std::string& name, const StringMap& parameters,
                                  Clock::time_point until);

  // NOT_FOUND: it has no record, and the plugin lists its snapshots without it. OK: it exists, or the plugin cannot
  // tell.
  absl::Status CheckExists(const std::string& plugin, const std::string& id, const Secrets& secrets,
                           Clock::time_point until);

  // OK if it does not exist. Without a record, controllers that are out of reach are not asked. INTERNAL: a record of
  // the plugin is damaged, which may be that of this snapshot.
  absl::Status Delete(const std::string& plugin, const std::string& id, const Secrets& secrets,
                      Clock::time_point until);

  // Forgets the record, and asks no plugin: the snapshot may stay. NOT_FOUND: there is none.
  absl::Status DropRecord(const std::string& plugin, const std::string& id);

  // Gives the records, and what the controllers list besides. An error: none answered, and there are no records.
  absl::StatusOr<SnapshotList> List(const std::string& plugin, Clock::time_point until);

  // From where it can be reached, by its record; empty: from anywhere, or there is no record.
  absl::StatusOr<std::vector<Topology>> TopologiesOf(const std::string& plugin, const std::string& id);

  // Finishes or undoes, in the background and until it succeeds, what `host` was taking.
  absl::Status Resume(const std::string& host);
  bool WaitUntilTried(Clock::time_point until) { return work_.WaitUntilTried(until); }  // what was resumed

 private:
  absl::StatusOr<Snapshot> Complete(const Snapshot& record, const csi::v1::Snapshot& taken);
  absl::Status ForgetOr(const Snapshot& record, const absl::Status& why);
  absl::Status Forget(const Snapshot& snapshot);
  absl::Status FinishOne(const Snapshot& record);
  absl::Status Finish(const Snapshot& record, Clock::time_point until);
  absl::Status Undo(const Snapshot& record, const Secrets& given, Clock::time_point until);
  void FinishLater(const Snapshot& record, const absl::Status& problem);
  absl::StatusOr<Secrets> SecretsOf(const Snapshot& snapshot);
  absl::StatusOr<std::optional<Snapshot>> Find(const std::string& plugin, const std::string& id);
  absl::Status AddWithSources(std::map<std::string, Snapshot>& listed, std::vector<Snapshot>& snapshots);

  RecordsStore& store_;
  PluginSnapshots at_plugins_;
  HostDirectory& hosts_;
  KeyedLocks& controller_locks_;
  Events& events_;
  WorkKind work_;  // last: its attempts use all of the above
};

}  // namespace mooring::manager
