// The publications of volumes to nodes: ControllerPublishVolume and its opposite. A volume of a shared pool can be
// published to any node that has the pool, to one at a time. The others can be published to this node only.
//
// The records of a shared pool may be wrong, and the orchestrator may take a node for lost that still writes. So the
// lock of the image decides (mounter/loop/attachment_lock.h). While a node has the volume attached, the volume is
// neither taken from it nor given to another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/catalog/store/shared_nodes.h"
#include "plugin/catalog/volume_lookup.h"

namespace mooring {

class VolumePublications {
 public:
  // `node_id` is this node, to which at most `max_volumes` may be published; 0: no limit.
  VolumePublications(CatalogStore& store, VolumeLookup& lookup, const Pools& pools, std::string node_id,
                     std::int64_t max_volumes)
      : store_(store),
        nodes_(store.files()),
        lookup_(lookup),
        pools_(pools),
        node_id_(std::move(node_id)),
        max_volumes_(max_volumes) {}

  // Whether this node has the volume staged or published.
  using IsUsedHere = std::function<bool(const std::string& volume_id)>;

  // As VolumeCatalog::Publish and Unpublish.
  absl::Status Publish(const ControllerPublishSpec& spec, const IsUsedHere& is_used_here, const Call& call);
  absl::Status Unpublish(const ControllerUnpublishSpec& spec, const Call& call);

  // FAILED_PRECONDITION: the volume is published; the error has the commands that unpublish it.
  absl::Status CheckNone(const std::string& id);
  std::string CommandsToUnpublish(const std::string& id);  // for people; empty: it is published to no node

  // FAILED_PRECONDITION: the volume is published to another node than this one.
  absl::Status CheckNotElsewhere(const std::string& id);

 private:
  // FAILED_PRECONDITION: a node has the volume of a shared pool attached. `node` is for the message; empty: unknown.
  absl::Status CheckDetached(const std::string& id, const std::string& node);
  absl::Status CheckMayUnpublish(const ControllerUnpublishSpec& spec);
  absl::StatusOr<std::int64_t> MostVolumes(const ControllerPublishSpec& spec);
  absl::Status CheckAccess(const VolumeRecord& record, const Capability& capability) const;

  CatalogStore& store_;
  SharedNodes nodes_;
  VolumeLookup& lookup_;
  const Pools& pools_;
  const std::string node_id_;
  const std::int64_t max_volumes_;
};

}  // namespace mooring
