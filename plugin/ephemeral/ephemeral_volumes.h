// Volumes that live as long as one target does, CSI's ephemeral inline volumes: an orchestrator knows them by an id of
// its own and publishes them without having created or staged them.
//
//   Publish     made in the catalog, under a name that only this id gives, and mounted at the target
//   Unpublish   unmounted and, where nothing of it is mounted any more, deleted
//   Reconcile   deleted where nothing of it is mounted: a reboot, a process that was killed on the way
//
// So whenever the process ends, the next Unpublish or start finds what there is to take away.
#ifndef MOORING_PLUGIN_EPHEMERAL_EPHEMERAL_VOLUMES_H_
#define MOORING_PLUGIN_EPHEMERAL_EPHEMERAL_VOLUMES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "plugin/catalog/catalog_store.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_specs.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

struct EphemeralSpec {
  CreateVolumeSpec volume;  // its `ephemeral` is the orchestrator's id
  PublishSpec publish;      // without a staging path
};

class EphemeralVolumes {
 public:
  // All outlive it.
  EphemeralVolumes(VolumeCatalog& catalog, CatalogStore& store, NodeVolumes& uses, KeyedLocks& locks)
      : catalog_(catalog), store_(store), uses_(uses), locks_(locks) {}

  // Again at the same target is OK. FAILED_PRECONDITION: it is published at another one. ALREADY_EXISTS: with other
  // attributes.
  absl::Status Publish(const EphemeralSpec& spec, const Call& call);

  // Of whatever volume: one that is not ephemeral is unpublished, and stays. NOT_FOUND, and nothing is taken down, for
  // an id that can be nobody's. With an unknown id the path is cleaned, and an ephemeral volume that was there is
  // deleted.
  absl::Status Unpublish(const std::string& volume_id, const std::string& target_path, const Call& call);
  absl::Status Unstage(const std::string& volume_id, const std::string& staging_path, const Call& call);

  // The id under which the volume is known here: its own, where `volume_id` is an orchestrator's.
  absl::StatusOr<std::string> OwnIdOf(const std::string& volume_id);

  const Pools& pools() const { return catalog_.pools(); }

  // At the start, after that of NodeVolumes.
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

#endif  // MOORING_PLUGIN_EPHEMERAL_EPHEMERAL_VOLUMES_H_
