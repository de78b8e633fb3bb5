// The files of deleted volumes whose devices look empty, and may hold data (device_backend.h). The deletion renames the
// file of the volume, which needs no room. The new name is in the same directory, because Landlock refuses a move to
// another one (before Linux 5.19 always). A person removes it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/backends/device/disks.h"

namespace mooring {

// `directory` is that of a pool.
std::string ReleasedPathOf(const std::string& directory, const std::string& id);

// Renames the file of the volume. OK if it does not exist.
absl::Status RenameToReleased(const std::string& directory, const std::string& id);

struct ReleasedFile {
  std::string path;  // empty: there is none
  DeviceRecord record;
};

// That of the disk, of any pool. `shared` has the directories of all pools.
absl::StatusOr<ReleasedFile> FindReleased(const std::string& shared, const Disk& disk, const Disks& disks);

// Updates the device numbers in the files of a pool for this boot. A file whose device is not there stays as it is.
absl::Status RefreshReleased(const std::string& directory, const Disks& disks);

}  // namespace mooring
