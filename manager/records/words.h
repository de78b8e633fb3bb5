// The words for the values of records.h, as people and orchestrators write them: "single-node-writer", "file-system",
// "read", "csi-node". Those that parse give INVALID_ARGUMENT with all that is allowed.
#ifndef MOORING_MANAGER_RECORDS_WORDS_H_
#define MOORING_MANAGER_RECORDS_WORDS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "manager/records/records.h"

namespace mooring::manager {

std::string_view ToString(AccessMode mode);
std::string_view ToString(Attachment attachment);
std::string_view ToString(ClaimMode mode);
std::string_view ToString(PluginType type);
std::string_view ToString(Claim::State state);
std::string_view ToString(Volume::State state);
std::string ToString(const VolumeKey& key);  // quoted, for messages: 'db', or 'db' in namespace 'prod'

absl::StatusOr<AccessMode> ParseAccessMode(std::string_view word);
absl::StatusOr<Attachment> ParseAttachment(std::string_view word);
absl::StatusOr<ClaimMode> ParseClaimMode(std::string_view word);

bool IsReader(AccessMode mode);  // gives no writer
bool IsSingleNode(AccessMode mode);

// (h): what is mounted below a shared mount reaches everybody, so only who may write may do that: else
// INVALID_ARGUMENT.
absl::Status CheckPropagation(Propagation propagation, bool read_only);

// (h): private, host-to-task, bidirectional, or mount(8)'s and Kubernetes' words for them; empty is private.
// INVALID_ARGUMENT: another word, or rshared without write access.
absl::StatusOr<Propagation> ParsePropagationFor(std::string_view word, bool read_only);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_RECORDS_WORDS_H_
