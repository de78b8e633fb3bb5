// A directory of the plugin's own, opened once: what is looked at is what is given to a user, whatever is renamed
// meanwhile.
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
  std::string path;  // without a symbolic link
  // The first link on the way that another user than root could have put there. Empty: none.
  std::string doubtful_link = {};
};

// `path` is normalised. NOT_FOUND, or what else the kernel says.
absl::StatusOr<RealDirectory> OpenRealDirectory(const std::string& path);

// Where it is missing (0700), in a parent that is there.
absl::Status MakeRealDirectory(const std::string& path);

}  // namespace mooring

#endif  // MOORING_BASE_FILE_REAL_DIRECTORY_H_
