// Small files for one program alone.
#ifndef MOORING_BASE_FILE_PRIVATE_FILE_H_
#define MOORING_BASE_FILE_PRIVATE_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace mooring {

enum class Outlives {
  kTheProcess,  // the file is whole or as it was, whenever the process is killed
  kAPowerCut,   // and when this returns OK it is on the disk
};

// Writes all of `path` anew, mode 0600.
absl::Status WritePrivateFile(const std::string& path, const std::string& contents, Outlives outlives);

}  // namespace mooring

#endif  // MOORING_BASE_FILE_PRIVATE_FILE_H_
