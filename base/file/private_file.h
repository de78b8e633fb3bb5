// Small files that one program keeps for itself.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace mooring {

enum class Outlives {
  kTheProcess,  // if the process is killed, the file has its old or its new content
  kAPowerCut,   // the same after a power cut, and the new content is on the disk when the call returns OK
};

// Replaces the content of `path`, atomically; mode 0600. It writes to `path`.new first.
absl::Status WritePrivateFile(const std::string& path, const std::string& contents, Outlives outlives);

}  // namespace mooring
