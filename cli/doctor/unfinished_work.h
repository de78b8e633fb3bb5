// The work that the manager of this host has not done yet, and repeats until it is done.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/doctor/finding.h"

namespace mooring::cli::doctor_area {

// A finding for each entry: a problem if a try has failed. Also a finding if the manager does not answer.
// INVALID_ARGUMENT: `socket` cannot be the path of a socket.
absl::StatusOr<Findings> FindUnfinishedWork(const std::string& socket);

}  // namespace mooring::cli::doctor_area
