// The words of csi-driver-nfs in the parameters of CreateVolume: server, share, subDir and mountPermissions.
// Its mountOptions arrive as mount flags: the pool has to have the same.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mount_options.h"
#include "plugin/backends/pools.h"
#include "plugin/model/volume_tuning.h"

namespace mooring {

struct ExportWords {
  std::string server, share, sub_dir;
};

// False: the key is none of them. INVALID_ARGUMENT: Mooring cannot do that; the error says what to write instead.
absl::StatusOr<bool> SetExportWord(const std::string& key, const std::string& value, ExportWords& words,
                                   VolumeMaking& making);

// The directory that a volume is to have, with the names of Kubernetes' objects in place of ${pvc.metadata.name} and so
// on. INVALID_ARGUMENT: no directory of Mooring can have that name, or the request does not name the object.
absl::StatusOr<std::string> SubDirOf(const ExportWords& words, const std::map<std::string, std::string>& parameters);

// INVALID_ARGUMENT: a mount flag is an option of the whole pool, and the pool has another value or none.
absl::Status CheckOptionsOfPool(const MountOptions& asked, const Pool& pool);

// The name of the pool on the export. `pool` is the parameter of that name, or empty. Without words it is `pool`.
// INVALID_ARGUMENT: there is no such pool, or `pool` is another one.
absl::StatusOr<std::string> PoolOfExport(const ExportWords& words, const std::string& pool, const Pools& pools);

}  // namespace mooring
