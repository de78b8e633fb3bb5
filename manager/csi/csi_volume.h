// Converts records to the messages of CSI.
#pragma once

#include <string>

#include "csi.pb.h"
#include "manager/records/records.h"

namespace mooring::manager {

// The modes SINGLE_NODE_SINGLE_WRITER and SINGLE_NODE_MULTI_WRITER are sent only with `knows_finer_modes`. Node and
// controller report that capability each for itself.
csi::v1::VolumeCapability ToCsi(Capability capability, const MountOptions& options, bool knows_finer_modes);
csi::v1::VolumeCapability::AccessMode::Mode ToCsi(AccessMode mode);

// The id by which the plugin knows the volume: the external id, or the own id if there is none.
const std::string& IdForPlugin(const Volume& volume);
const std::string& IdForPlugin(const AttachmentRecord& record);

// False: its creation is not finished, so its id is unknown, and the plugin may not have it.
inline bool HasPluginId(const Volume& volume) { return !volume.external_id.empty() || !volume.created_here; }

}  // namespace mooring::manager
