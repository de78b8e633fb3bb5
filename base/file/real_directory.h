// A directory of the program's own, opened once: a later rename of its path does not change which directory is meant.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

enum class IfMissing { kMake, kRefuse };

struct RealDirectory {
  UniqueFd fd;       // O_PATH
  std::string path;  // without a symbolic link
  // The first symbolic link on the way in a directory where another user than root may write. Empty: none.
  std::string doubtful_link = {};
};

// `path` is normalised. An error keeps the code of the kernel's error: NOT_FOUND if the directory is missing.
absl::StatusOr<RealDirectory> OpenRealDirectory(const std::string& path);

// Makes the directory (0700) for the user `uid` and the group `gid`, unless it exists. Its parent must exist. Another
// user than this process gets it only if CheckNoDoubtfulLink accepts the way to it.
absl::Status MakeRealDirectory(const std::string& path, uid_t uid, gid_t gid);

// FAILED_PRECONDITION: a user other than root can have made a symbolic link on the way to the directory.
absl::Status CheckNoDoubtfulLink(const RealDirectory& directory);

}  // namespace mooring
