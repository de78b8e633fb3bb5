// A list narrowed to something that does not exist is an error: an empty list would hide a typing error. An empty name
// narrows nothing, and is OK.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "cli/manager/command.h"

namespace mooring::cli::manager_area {

absl::Status CheckVolume(const Session& session, const v1::VolumeKey& key);
absl::Status CheckPlugin(const Session& session, const std::string& name);
absl::Status CheckHost(const Session& session, const std::string& name);

}  // namespace mooring::cli::manager_area
