// The publications of volumes to nodes: ControllerPublishVolume and its opposite. A volume of a shared pool can be
// published to any node that has the pool, to one at a time. The others can be published to this node only.
//
// An orchestrator may publish nothing, or unpublish a volume from a node that still writes. So each node puts its uses
// of a volume on record in a pool for many nodes (SharedNodes::Uses), and ends them itself. They decide who may use or
// delete the volume, and outlive the plugin.
//
// The records of a shared pool may be wrong, and the orchestrator may take a node for lost that still writes. So the
// lock of the image decides (mounter/loop/attachment_lock.h). While a node has the volume attached, the volume is
// neither taken from it nor given to another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/catalog/store/shared_nodes.h"
#include "plugin/catalog/volume_lookup.h"

namespace mooring {

class VolumePublications {
 public:
  // `node_id` is this node, to which at most `max_volumes` may be published; 0: no limit. `serves_node`: as
  // VolumeCatalog::Settings.
  VolumePublications(CatalogStore& store, VolumeLookup& lookup, const Pools& pools, std::string node_id,
                     std::int64_t max_volumes, bool serves_node)
      : store_(store),
        nodes_(store.files()),
        lookup_(lookup),
        pools_(pools),
        node_id_(std::move(node_id)),
        max_volumes_(max_volumes),
        serves_node_(serves_node) {}

  // Whether this node has the volume staged or published.
  using IsUsedHere = std::function<bool(const std::string& volume_id)>;

  // As VolumeCatalog::Publish and Unpublish.
  absl::Status Publish(const ControllerPublishSpec& spec, const IsUsedHere& is_used_here, const Call& call);
  absl::Status Unpublish(const ControllerUnpublishSpec& spec, const Call& call);

  // FAILED_PRECONDITION: the volume is published, or in use on a node.
  absl::Status CheckNone(const std::string& id);
  std::string CommandsToUnpublish(const std::string& id);  // for people; empty: it is published to no node

  // As VolumeSource.
  absl::Status BeginUse(const std::string& id, const Capability& capability, bool read_only);
  absl::Status EndUse(const std::string& id);
  void EndUseLater(const std::string& id);

  // Ends the uses of this node in that pool that are no longer mounted, because their end has failed.
  absl::Status EndStaleUses(const std::string& pool);

 private:
  // FAILED_PRECONDITION: the volume is published to another node than this one.
  absl::Status CheckNotElsewhere(const std::string& id);
  // FAILED_PRECONDITION: a node uses the volume.
  absl::Status CheckNoUses(const std::string& id);
  const Pool* PoolForManyNodes(const std::string& id) const;  // null: one node at a time can use the volume
  // FAILED_PRECONDITION: another node uses the volume, and that leaves no room for `wanted`.
  absl::Status CheckBesidesUses(const std::vector<PublicationRecord>& uses, const PublicationRecord& wanted);

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
  const bool serves_node_;
};

}  // namespace mooring
