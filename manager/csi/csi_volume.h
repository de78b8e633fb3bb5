// Records as CSI wants them.
#ifndef MOORING_MANAGER_CSI_CSI_VOLUME_H_
#define MOORING_MANAGER_CSI_CSI_VOLUME_H_

#include <string>

#include "csi.pb.h"
#include "manager/records/records.h"

namespace mooring::manager {

// CSI has the two finer writer modes only for those who say they know them, node and controller each for itself.
csi::v1::VolumeCapability ToCsi(Capability capability, const MountOptions& options, bool knows_finer_modes);
csi::v1::VolumeCapability::AccessMode::Mode ToCsi(AccessMode mode);

// The external id, else its own, (d) 6.
const std::string& IdForPlugin(const Volume& volume);
const std::string& IdForPlugin(const MountRecord& record);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CSI_CSI_VOLUME_H_
