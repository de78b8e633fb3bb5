// Attach and detach as their commands, and mount.csi and umount.csi, ask for them.
#ifndef MOORING_CLI_MANAGER_PARSE_ATTACH_REQUEST_H_
#define MOORING_CLI_MANAGER_PARSE_ATTACH_REQUEST_H_

#include "absl/status/statusor.h"
#include "cli/manager/arguments.h"
#include "cli/manager/parse/words.h"

namespace mooring::cli::manager_area {

// The path is made absolute and its links are resolved, as this process sees it.
absl::StatusOr<v1::AttachRequest> AttachRequestOf(const Arguments& arguments);
absl::StatusOr<v1::DetachRequest> DetachRequestOf(const Arguments& arguments);

}  // namespace mooring::cli::manager_area

#endif  // MOORING_CLI_MANAGER_PARSE_ATTACH_REQUEST_H_
