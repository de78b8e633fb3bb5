// Records as CSI wants them.
#ifndef MOORING_MANAGER_CSI_CSI_VOLUME_H_
#define MOORING_MANAGER_CSI_CSI_VOLUME_H_

#include <string>

#include "csi.pb.h"
#include "manager/records.h"

namespace mooring::manager {

csi::v1::VolumeCapability ToCsi(const Capability& capability, const MountOptions& options);
csi::v1::VolumeCapability::AccessMode::Mode ToCsi(AccessMode mode);

// The external id, else its own, (d) 6.
std::string IdForPlugin(const Volume& volume);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CSI_CSI_VOLUME_H_
