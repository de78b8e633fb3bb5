// Directories with a size: Contents::LimitDirectory (mounter/mounter.h). Everything goes through open directories.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"

namespace mooring {

// The number of files and directories that a volume of this size may have.
std::uint64_t InodesFor(std::uint64_t bytes);

absl::Status SetDirectoryLimit(const std::string& path, std::uint64_t bytes);

// Takes the limit of this directory away, which is about to be removed and is empty. OK if it has none.
absl::Status DropDirectoryLimit(const UniqueFd& directory, const std::string& path);

}  // namespace mooring
