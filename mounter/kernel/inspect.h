// The state of a resolved path, for Find and for the calls that decide by it.
#pragma once

#include "absl/status/statusor.h"
#include "mounter/mounter.h"
#include "mounter/path/source_policy.h"
#include "mounter/path/target.h"

namespace mooring {

absl::StatusOr<PathInfo> Inspect(const Target& target, const SourcePolicy& sources);

}  // namespace mooring
