// What node calls about a record have in common.
#ifndef MOORING_MANAGER_VOLUMES_NODE_VOLUME_H_
#define MOORING_MANAGER_VOLUMES_NODE_VOLUME_H_

#include <string>

#include "csi.pb.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records.h"

namespace mooring::manager {

// The external id, else its own, (d) 6.
inline const std::string& IdForPlugin(const MountRecord& record) {
  return record.external_id.empty() ? record.volume.id : record.external_id;
}

// CSI has the two finer writer modes only for plugins that say they know them.
inline csi::v1::VolumeCapability CapabilityFor(const ReadyPlugin& node, const MountRecord& record) {
  Capability capability = record.capability;
  const bool finer = capability.access == AccessMode::kSingleNodeSingleWriter ||
                     capability.access == AccessMode::kSingleNodeMultiWriter;
  if (finer && !node.fingerprint.traits.node_single_writer) capability.access = AccessMode::kSingleNodeWriter;
  return ToCsi(capability, record.options);
}

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_VOLUMES_NODE_VOLUME_H_
