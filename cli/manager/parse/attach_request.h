// The requests of attach and detach, for their commands and for mount.csi and umount.csi.
#pragma once

#include "absl/status/statusor.h"
#include "cli/manager/arguments.h"
#include "cli/manager/parse/value_text.h"

namespace mooring::cli::manager_area {

// The path becomes absolute, and its symbolic links are resolved in the namespace of this process.
absl::StatusOr<v1::AttachRequest> AttachRequestOf(const Arguments& arguments);
absl::StatusOr<v1::DetachRequest> DetachRequestOf(const Arguments& arguments);

}  // namespace mooring::cli::manager_area
