// Sizes as people write and read them.
#ifndef MOORING_CLI_SIZE_H_
#define MOORING_CLI_SIZE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring::cli {

// Bytes from "1073741824", "1GiB" or "1Gi" (powers of 1024: Ki Mi Gi Ti Pi Ei), "1G" or "1GB" (powers of 1000: k M G T
// P E). A whole number and nothing around it; INVALID_ARGUMENT otherwise, and past 2^63 - 1.
absl::StatusOr<std::int64_t> ParseSize(std::string_view text);

// "1.0 GiB (1073741824)"; "512 B" below 1 KiB. Cut, not rounded, after one decimal place: never more than there is.
std::string FormatSize(std::int64_t bytes);

}  // namespace mooring::cli

#endif  // MOORING_CLI_SIZE_H_
