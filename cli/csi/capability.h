// Volume capabilities of the command line, and their names.
#ifndef MOORING_CLI_CSI_CAPABILITY_H_
#define MOORING_CLI_CSI_CAPABILITY_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/csi/arguments.h"
#include "csi.pb.h"

namespace mooring::cli::csi_area {

using AccessMode = csi::v1::VolumeCapability::AccessMode::Mode;

// Parses "single-node-writer" or SINGLE_NODE_WRITER. INVALID_ARGUMENT lists the choices.
absl::StatusOr<AccessMode> ParseAccessMode(std::string_view name);
std::string AccessModeName(AccessMode mode);  // "single-node-writer"; "mode-17" for an unknown mode

// The capability that --access and the related flags describe. Without these flags: a filesystem that the driver
// chooses, in mode SINGLE_NODE_WRITER. INVALID_ARGUMENT: more than one mode, or --block with a flag for filesystems.
absl::StatusOr<csi::v1::VolumeCapability> CapabilityOf(const Arguments& arguments);

// The same with one capability for each mode.
using Capabilities = google::protobuf::RepeatedPtrField<csi::v1::VolumeCapability>;
absl::StatusOr<Capabilities> CapabilitiesOf(const Arguments& arguments);

// Whether any of these flags is given. Requests with an optional capability contain none without them.
bool NamesCapability(const Arguments& arguments);

// "mount ext4 single-node-writer", "block multi-node-reader-only".
std::string ToString(const csi::v1::VolumeCapability& capability);

}  // namespace mooring::cli::csi_area

#endif  // MOORING_CLI_CSI_CAPABILITY_H_
