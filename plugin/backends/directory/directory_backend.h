// A volume is a directory, <directory>/<id>, which is bind mounted where it is used.
//
// Its size is no limit: a task can fill the filesystem. A single volume may not be larger than the free space, and the
// sum of all volumes may.
//
// The files of a volume belong to tasks, so the mounter, which is privileged, removes them. The directory is renamed to
// <id>.deleting first, so that a volume is either whole or gone.
#pragma once

#include <memory>
#include <string>

#include "plugin/backends/interface/backend_type.h"

namespace mooring {

const BackendType& DirectoryBackendType();

// The same in a directory of several hosts, on a file server that may stop: BackendParts::availability. `directory` is
// for this process, and `shown` is another path to it, for the mounter and for tasks.
std::unique_ptr<Backend> MakeSharedDirectories(const std::string& directory, const std::string& shown,
                                               const BackendParts& parts);

}  // namespace mooring
