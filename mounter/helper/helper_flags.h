// The command line of mooring-mounter: how the plugin tells the mount helper its policy.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mounter/guard/guarded_mounter.h"

namespace mooring {

struct HelperFlags {
  HelperPolicy policy;
  std::string log_level = "info";
  std::string log_format = "text";
};

// Without the program's name.
std::vector<std::string> ArgumentsOf(HelperFlags flags);

// INVALID_ARGUMENT: an unknown flag, or no mount root or label prefix.
absl::StatusOr<HelperFlags> ParseHelperFlags(int argc, char** argv);

}  // namespace mooring
