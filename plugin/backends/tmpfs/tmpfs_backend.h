// Volumes in memory. The node side mounts a tmpfs from the first stage to the last unstage. After that, and after a
// reboot, a volume is empty. A sparse file of its size, <directory>/<id>, records that the volume exists.
#pragma once

#include "plugin/backends/interface/backend_type.h"

namespace mooring {

const BackendType& TmpfsBackendType();

}  // namespace mooring
