// The names of the values in records.h, as people and orchestrators write them: "single-node-writer", "file-system",
// "read", "csi-node". The parsers give INVALID_ARGUMENT with all allowed names.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "manager/records/records.h"

namespace mooring::manager {

std::string_view ToString(AccessMode mode);
std::string_view ToString(AttachmentMode attachment);
std::string_view ToString(ClaimMode mode);
std::string_view ToString(Claim::State state);
std::string_view ToString(Volume::State state);
std::string_view ToString(AttachmentRecord::Phase phase);
std::string ToString(const VolumeKey& key);  // quoted, for messages: 'db', or 'db' in namespace 'prod'

absl::StatusOr<AccessMode> ParseAccessMode(std::string_view name);

bool IsReader(AccessMode mode);  // the mode allows no writer
bool IsSingleNode(AccessMode mode);

// INVALID_ARGUMENT: shared propagation of a read-only mount. A mount made below a shared mount appears on the host, so
// only a writer may ask for it.
absl::Status CheckPropagation(Propagation propagation, bool read_only);

// Parses "private", "host-to-task", "bidirectional", or the names of mount(8) and Kubernetes; empty is private.
// INVALID_ARGUMENT: another name, or rshared without write access.
absl::StatusOr<Propagation> ParsePropagationFor(std::string_view name, bool read_only);

}  // namespace mooring::manager
