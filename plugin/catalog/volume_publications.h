// The publications of volumes to this node: ControllerPublishVolume and its opposite.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "plugin/catalog/volume_lookup.h"

namespace mooring {

class VolumePublications {
 public:
  // `node_id` is the only node that volumes can be published to. At most `max_volumes` may be; 0: no limit.
  VolumePublications(CatalogStore& store, VolumeLookup& lookup, const Pools& pools, std::string node_id,
                     std::int64_t max_volumes)
      : store_(store), lookup_(lookup), pools_(pools), node_id_(std::move(node_id)), max_volumes_(max_volumes) {}

  // As VolumeCatalog::Publish and Unpublish.
  absl::Status Publish(const ControllerPublishSpec& spec, const Call& call);
  absl::Status Unpublish(const ControllerUnpublishSpec& spec, const Call& call);

  // FAILED_PRECONDITION: the volume is published; the error has the commands that unpublish it.
  absl::Status CheckNone(const std::string& id);

 private:
  absl::Status CheckAccess(const VolumeRecord& record, const Capability& capability) const;

  CatalogStore& store_;
  VolumeLookup& lookup_;
  const Pools& pools_;
  const std::string node_id_;
  const std::int64_t max_volumes_;
};

}  // namespace mooring
