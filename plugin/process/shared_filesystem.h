// Whether the filesystem of a shared pool has locks that work between hosts.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace mooring {

// FAILED_PRECONDITION: the directory lies on FUSE, or on a mount whose locks stay on this host (`nolock` of nfs(5)).
absl::Status CheckSharedFilesystem(const std::string& directory);

// The part about mount options. `mount_info`: the text of /proc/self/mountinfo, proc(5). `device`: st_dev of the
// directory, for the mounts of its filesystem.
absl::Status CheckLocksReachOthers(const std::string& mount_info, dev_t device, const std::string& directory);

}  // namespace mooring
