// Small files, whole.
#ifndef MOORING_BASE_FILE_WHOLE_FILE_H_
#define MOORING_BASE_FILE_WHOLE_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace mooring {

// NOT_FOUND: there is none, and nothing else is said so: who takes a file that cannot be read for one that is not there
// loses what it told. (A std::ifstream does not tell one from the other.)
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace mooring

#endif  // MOORING_BASE_FILE_WHOLE_FILE_H_
