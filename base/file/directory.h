// The entries of a directory. (A range-for over std::filesystem::directory_iterator throws where reading on fails, even
// of one that was made with an error_code.)
#ifndef MOORING_BASE_FILE_DIRECTORY_H_
#define MOORING_BASE_FILE_DIRECTORY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring {

// Their names, without "." and "..", in no order.
absl::StatusOr<std::vector<std::string>> EntriesOf(const std::string& directory);

// None where there is no such directory.
absl::StatusOr<std::vector<std::string>> EntriesOrNone(const std::string& directory);

}  // namespace mooring

#endif  // MOORING_BASE_FILE_DIRECTORY_H_
