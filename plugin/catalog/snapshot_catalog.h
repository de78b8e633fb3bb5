// Creates, lists and deletes snapshots, single ones and groups: the work of the Controller and GroupController
// services, without gRPC.
//
// A snapshot is an independent copy: its volume may be deleted, and so may a snapshot from which volumes were created.
// Every change is recorded before it is made and afterwards:
//
//               Insert             copied            Delete            removed
//     (no row) ───────▶ creating ─────────▶ ready ──────────▶ deleting ───────▶ (no row)
//                           │                 ▲                │   ▲
//                           │                 └── still in use ┘   │
//                           └── failed, given up, cut short ───────┘
//
// No call returns the id of a snapshot before the snapshot is ready. A group and its members change their state
// together.
//
// A row in `creating` or `deleting` may be older than its images, because an administrator may have put back an old
// copy of the catalog. Images get their names when they are whole. So a snapshot becomes ready if all its images exist.
//
// Calls for one name wait for each other, then for the volumes or the snapshot. They are ABORTED at Call::wait_until.
// catalog_locks.h has the order of the locks.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/catalog/snapshot_sets.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_specs.h"

namespace mooring {

// Creates snapshots, single ones and groups.
//
// An interrupted copy is never finished later, because it would be of another instant than its record says. It is
// rolled back, the volumes are thawed (Contents::Thaw), and the repeated call begins anew.
class SnapshotMaker {
 public:
  SnapshotMaker(SnapshotStore& store, VolumeCatalog& volumes, const Pools& pools, KeyedLocks& locks, SnapshotSets& sets)
      : store_(store), volumes_(volumes), pools_(pools), locks_(locks), sets_(sets) {}

  // As SnapshotCatalog::Create and CreateGroup.
  absl::StatusOr<SnapshotSet> FindOrMake(const std::string& name, bool is_group,
                                         const std::vector<std::string>& volume_ids, const Call& call);

  // Finishes or rolls back an unfinished set, which holds the name. The caller holds the lock of the name.
  absl::Status ClearName(const SnapshotSet& unfinished, const Call& call);

 private:
  absl::StatusOr<SnapshotSet> Make(const std::string& name, bool is_group, const std::vector<std::string>& volume_ids,
                                   const Call& call);
  absl::StatusOr<CopySource> FindSource(const std::string& volume_id);
  absl::Status InsertWithRoom(const SnapshotSet& set, const Call& call);
  absl::Status Populate(const SnapshotSet& set, const std::vector<CopySource>& sources);

  SnapshotStore& store_;
  VolumeCatalog& volumes_;
  const Pools& pools_;
  KeyedLocks& locks_;
  SnapshotSets& sets_;
};

struct SnapshotPage {
  std::vector<SnapshotRecord> snapshots;
  std::optional<std::int64_t> next;  // `after` of the next page; none: this is the last page
};

class SnapshotCatalog {
 public:
  // All of them outlive the catalog. `locks` are the locks of the volumes.
  SnapshotCatalog(SnapshotStore& store, VolumeCatalog& volumes, const Pools& pools, KeyedLocks& locks,
                  Contents& contents);

  // Finds or creates the snapshot with that name. ALREADY_EXISTS: it is of another volume. NOT_FOUND: the volume does
  // not exist. FAILED_PRECONDITION: the pool has no snapshots. RESOURCE_EXHAUSTED: there is no room.
  absl::StatusOr<SnapshotRecord> Create(const CreateSnapshotSpec& spec, const Call& call);

  // OK if it does not exist. INVALID_ARGUMENT: it is a member of a group.
  absl::Status Delete(const std::string& id, const Call& call);

  absl::StatusOr<SnapshotRecord> Get(const std::string& id);  // NOT_FOUND: it does not exist or is not ready
  absl::StatusOr<SnapshotPage> List(const ListSnapshotsSpec& spec);

  // Creates all members, at one instant, or none. They are in the pool of the first volume. Codes as Create.
  // ALREADY_EXISTS: the group with that name is of other volumes.
  absl::StatusOr<SnapshotSet> CreateGroup(const CreateGroupSpec& spec, const Call& call);

  // INVALID_ARGUMENT: the group has other members than the call names. Delete is OK if the group does not exist.
  absl::StatusOr<SnapshotSet> GetGroup(const GroupSpec& spec);
  absl::Status DeleteGroup(const GroupSpec& spec, const Call& call);

  // The image of a snapshot, for reading its blocks. NOT_FOUND as Get.
  struct Image {
    SnapshotRecord snapshot;
    BackendKind kind = BackendKind::kImage;
    std::string path;
  };
  absl::StatusOr<Image> Locate(const std::string& id);

  // Runs at the start, before any call, and before VolumeCatalog::Reconcile. It skips snapshots that another process
  // has locked, and those that one still makes after `patience`.
  absl::Status Reconcile(std::chrono::milliseconds patience = kHelperEnds);

 private:
  void FinishInterrupted(const SnapshotSet& listed, std::chrono::milliseconds patience);
  absl::Status ReportLostImages();

  SnapshotStore& store_;
  const Pools& pools_;
  KeyedLocks& locks_;
  SnapshotSets sets_;
  SnapshotMaker maker_;
};

}  // namespace mooring
