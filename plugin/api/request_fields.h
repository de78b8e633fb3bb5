// Fields that several requests have. Errors are INVALID_ARGUMENT with the name of the field, unless stated otherwise.
#pragma once

#include <google/protobuf/map.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/model/volume_specs.h"

namespace mooring {

inline constexpr std::string_view kKubernetesPrefix = "csi.storage.k8s.io/";  // of keys that its sidecars add

// `value`, the field of this name, which must not be empty.
absl::StatusOr<std::string> Required(std::string_view field, const std::string& value);

// Checks the name of a new object: present, at most 128 bytes, no control characters.
absl::Status CheckName(const std::string& name, std::string_view what);

absl::StatusOr<bool> ParseTruth(std::string_view parameter, const std::string& value);  // "true" or "false"

// For objects without parameters: only those of Kubernetes' sidecars are accepted.
absl::Status CheckNoParameters(const google::protobuf::Map<std::string, std::string>& parameters,
                               std::string_view what);

// A call that returns pages. Its tokens are opaque to callers. They have a prefix for the call and the position of the
// last entry, so that a token of another call is refused.
struct PagedCall {
  std::string_view name;
  std::string_view token_prefix;
};
inline constexpr PagedCall kListVolumes = {"ListVolumes", "after-"};
inline constexpr PagedCall kListSnapshots = {"ListSnapshots", "snapshots-after-"};

// ABORTED: `call` never returned this token (CSI 1.12, ListVolumes Errors).
absl::StatusOr<PageSpec> ParsePage(std::int32_t max_entries, const std::string& starting_token, const PagedCall& call);
std::string ListToken(const PagedCall& call, std::int64_t after);

}  // namespace mooring
