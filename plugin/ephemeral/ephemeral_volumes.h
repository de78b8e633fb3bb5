// The ephemeral inline volumes of CSI: each lives as long as its one target. The orchestrator chooses the id, and
// publishes the volume without creating or staging it.
//
//   Publish     creates the volume in the catalog, with a name made from the id, and mounts it at the target
//   Unpublish   unmounts it, and deletes it if it is not mounted any more
//   Reconcile   deletes volumes that are not mounted, after a reboot or a killed process
//
// So after any interruption the next Unpublish or start cleans up.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_specs.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

struct EphemeralSpec {
  CreateVolumeSpec volume;  // `ephemeral` is the id from the orchestrator
  PublishSpec publish;      // without a staging path
};

class EphemeralVolumes {
 public:
  // All references outlive it.
  EphemeralVolumes(VolumeCatalog& catalog, CatalogStore& store, NodeVolumes& uses, KeyedLocks& locks)
      : catalog_(catalog), store_(store), uses_(uses), locks_(locks) {}

  // OK if it is published at this target. FAILED_PRECONDITION: at another target. ALREADY_EXISTS: with other
  // attributes.
  absl::Status Publish(const EphemeralSpec& spec, const Call& call);

  // Unpublishes any volume; a volume that is not ephemeral stays. NOT_FOUND: this driver makes no such ids, and nothing
  // is unmounted. An unknown id cleans up the path, and deletes the ephemeral volume that was there.
  absl::Status Unpublish(const std::string& volume_id, const std::string& target_path, const Call& call);
  absl::Status Unstage(const std::string& volume_id, const std::string& staging_path, const Call& call);

  // The catalog's id of the volume, for an id from the orchestrator.
  absl::StatusOr<std::string> OwnIdOf(const std::string& volume_id);

  const Pools& pools() const { return catalog_.pools(); }

  // Runs at the start, after NodeVolumes::Reconcile.
  absl::Status Reconcile();

 private:
  absl::StatusOr<KeyedLocks::Hold> Lock(const std::string& ephemeral_id, const Call& call);
  absl::StatusOr<std::optional<VolumeRecord>> Find(const std::string& ephemeral_id);
  absl::Status CheckNoOtherTarget(const EphemeralSpec& spec);
  absl::Status DeleteUnused(const std::string& own_id, const Call& call);
  absl::Status DeleteIfEphemeral(const std::string& asked_id, const std::string& ended_id, const Call& call);
  absl::Status ReconcileVolume(const VolumeRecord& listed);

  VolumeCatalog& catalog_;
  CatalogStore& store_;
  NodeVolumes& uses_;
  KeyedLocks& locks_;
};

}  // namespace mooring
