// Sizes as people write them.
#ifndef MOORING_BASE_TEXT_SIZE_H_
#define MOORING_BASE_TEXT_SIZE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring {

// Bytes from "1073741824", "1GiB" or "1Gi" (powers of 1024: Ki Mi Gi Ti Pi Ei), "1G" or "1GB" (powers of 1000: k M G T
// P E). A whole number and nothing around it; INVALID_ARGUMENT otherwise, and past 2^63 - 1.
absl::StatusOr<std::int64_t> ParseSize(std::string_view text);

}  // namespace mooring

#endif  // MOORING_BASE_TEXT_SIZE_H_
