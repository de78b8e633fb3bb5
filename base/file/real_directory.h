// A directory of the plugin, opened once: the plugin checks and changes the same directory, even if a path on the way
// is renamed meanwhile.
#ifndef MOORING_BASE_FILE_REAL_DIRECTORY_H_
#define MOORING_BASE_FILE_REAL_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

enum class IfMissing { kMake, kRefuse };

struct RealDirectory {
  UniqueFd fd;       // for reading
  std::string path;  // without symbolic links
  // The first symbolic link on the way that a user other than root could have created. Empty if there is none.
  std::string doubtful_link = {};
};

// `path` is normalised. NOT_FOUND: it does not exist. Other errors are those of the kernel.
absl::StatusOr<RealDirectory> OpenRealDirectory(const std::string& path);

// Creates the directory (0700) in an existing parent. It is no error if the directory exists.
absl::Status MakeRealDirectory(const std::string& path);

}  // namespace mooring

#endif  // MOORING_BASE_FILE_REAL_DIRECTORY_H_
