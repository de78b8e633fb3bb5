// A volume or snapshot is a subvolume, <directory>/<id>, in a btrfs that holds nothing else. A volume is bind mounted
// where it is used.
//
// The size of a volume is the limit of its group of quotas (mounter/subvolume/quota.h). Only the catalog has it, too. A
// snapshot has no group: its data is counted for the volume that wrote it.
//
// The mounter makes, limits and removes subvolumes, because that needs privileges. The number of a group follows from
// the id, so Delete clears whatever an interrupted call has made.
#pragma once

#include "plugin/backends/interface/backend_type.h"

namespace mooring {

const BackendType& BtrfsBackendType();

}  // namespace mooring
