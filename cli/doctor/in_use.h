// The commands that free a volume which is in use.
#ifndef MOORING_CLI_DOCTOR_IN_USE_H_
#define MOORING_CLI_DOCTOR_IN_USE_H_

#include <string>
#include <vector>

#include "cli/doctor/finding.h"

namespace mooring::cli::doctor_area {

// `paths`: where the volume is mounted. A path has a command only where its name says for sure whether it is a target
// or a staging path, as kubelet and Nomad name them. Targets come first: a volume is unstaged when nothing is
// published.
Finding InUse(const std::string& volume_id, const std::vector<std::string>& paths);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_IN_USE_H_
