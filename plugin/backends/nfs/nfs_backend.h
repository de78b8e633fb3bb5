// A pool on an export of an NFS server, which the plugin mounts by itself, once on each host. It is a shared pool of
// directories (plugin/backends/directory/directory_backend.h). Volumes can be used on several hosts at once.
#pragma once

#include "plugin/backends/interface/backend_type.h"

namespace mooring {

const BackendType& NfsBackendType();

}  // namespace mooring
