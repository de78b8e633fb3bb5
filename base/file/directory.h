// Directories. (A range-for over std::filesystem::directory_iterator throws if it cannot read on, even if the iterator
// was constructed with an error_code.)
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

// The names of the entries, without "." and "..", in no order.
absl::StatusOr<std::vector<std::string>> EntriesOf(const std::string& directory);

// The same, but empty if there is no such directory.
absl::StatusOr<std::vector<std::string>> EntriesOrNone(const std::string& directory);

// False also if it cannot be read.
bool IsKnownEmpty(const std::string& directory);

// Makes the directory (0700), unless it exists. Its parent must exist.
absl::Status MakePrivateDirectory(const std::string& directory);

// Makes a change of the directory that holds `path` durable: a new, renamed or removed name.
absl::Status SyncDirectoryOf(const std::string& path);

}  // namespace mooring
