// Fields that requests have in common. Errors are INVALID_ARGUMENT with the field's name, unless it is said otherwise.
#ifndef MOORING_PLUGIN_API_REQUEST_FIELDS_H_
#define MOORING_PLUGIN_API_REQUEST_FIELDS_H_

#include <google/protobuf/map.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

inline constexpr std::string_view kKubernetesPrefix = "csi.storage.k8s.io/";  // what its sidecars add of their own

// Of `what` is created: there, at most 128 bytes, no control characters.
absl::Status CheckName(const std::string& name, std::string_view what);

// Of what takes none: those of Kubernetes' sidecars alone.
absl::Status CheckNoParameters(const google::protobuf::Map<std::string, std::string>& parameters,
                               std::string_view what);

// `max_entries` and `starting_token` of a list.
struct PageFields {
  std::int64_t after = 0;
  std::size_t max_entries = 0;  // 0: all
};

// A call that gives pages: its tokens are opaque to callers, to us the prefix and the place of the last entry. One
// call's are not taken for another's.
struct PagedCall {
  std::string_view name;
  std::string_view token_prefix;
};
inline constexpr PagedCall kListVolumes = {"ListVolumes", "after-"};
inline constexpr PagedCall kListSnapshots = {"ListSnapshots", "snapshots-after-"};

// ABORTED: a token that `call` never gave out (CSI).
absl::StatusOr<PageFields> ParsePage(std::int32_t max_entries, const std::string& starting_token,
                                     const PagedCall& call);
std::string ListToken(const PagedCall& call, std::int64_t after);

}  // namespace mooring

#endif  // MOORING_PLUGIN_API_REQUEST_FIELDS_H_
