// The file with the passphrase of a pool: the key `keyfile` of --pool. It is read at each use, because it may be
// exchanged.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

// Its content without a newline at the end: 1 to kLongestPassphrase bytes. FAILED_PRECONDITION: it is missing, or has
// another content.
absl::StatusOr<std::string> ReadKeyFile(const std::string& path);

// At the start. FAILED_PRECONDITION also: it belongs to everybody, by its mode.
absl::Status CheckKeyFile(const std::string& path);

}  // namespace mooring
