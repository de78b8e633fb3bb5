// Sizes as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring {

// Parses a size into bytes: "1073741824"; "1GiB" or "1Gi" (powers of 1024: Ki Mi Gi Ti Pi Ei).
// Also "1G" or "1GB" (powers of 1000: k M G T P E).
// INVALID_ARGUMENT: not a whole number with an optional unit, or more than 2^63 - 1.
absl::StatusOr<std::int64_t> ParseSize(std::string_view text);

// "1.0 GiB (1073741824)"; "512 B" below 1 KiB. Cut after one decimal place, so it never shows more than there is.
std::string FormatSize(std::int64_t bytes);

// The same, but "unknown" for 0: CSI drivers leave out a size that they do not know.
std::string FormatKnownSize(std::int64_t bytes);

// The exact size with the largest unit that fits: "1 GiB", "1536 MiB", "4097 bytes".
std::string SizeText(std::uint64_t bytes);

}  // namespace mooring
