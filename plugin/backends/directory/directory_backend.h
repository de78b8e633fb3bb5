// A volume is a directory, <directory>/<id>, which is bind mounted where it is used.
//
// Without `quota`, its size is no limit: a task can fill the filesystem. A single volume may not be larger than the
// free space, and the sum of all volumes may. With quota=enforced its size is the limit of a project of its own
// (mounter/quota/project_quota.h). A new volume is <id>.making until it has its limit, and the number of the project
// follows from the id.
//
// The files of a volume belong to tasks, so the mounter, which is privileged, removes them. The directory is renamed to
// <id>.deleting first, so that a volume is either whole or gone. A copy is made as <id>.making. The name of a volume is
// a symbolic link to <id> beside it (Backend::SetName).
#pragma once

#include "plugin/backends/interface/backend_type.h"

namespace mooring {

// With BackendParts::availability, the directory is one of several hosts, on a file server that may stop. This process
// then uses its PlaceForCalls.
const BackendType& DirectoryBackendType();

}  // namespace mooring
