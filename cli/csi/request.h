// Requests to a CSI driver, filled from the flags of a command.
#pragma once

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "cli/csi/arguments.h"

namespace mooring::cli::csi_area {

// Sets each field of `request` that a flag fills. Without flags for a capability, a request that must have one gets a
// filesystem that the driver chooses, in mode SINGLE_NODE_WRITER. INVALID_ARGUMENT: contradictory flags, or an unknown
// access mode.
absl::Status FillRequest(const Arguments& arguments, google::protobuf::Message& request);

}  // namespace mooring::cli::csi_area
