// Sizes as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring {

// Parses a size into bytes: "1073741824" or "1073741824B"; "1GiB" or "1Gi" (powers of 1024: Ki Mi Gi Ti Pi Ei).
// Also "1G" or "1GB" (powers of 1000: k M G T P E).
// A number without a unit is bytes. Below 1 MiB that is most likely a mistake: people mean 5 GB by "5". So it is
// refused, except 0, which needs no unit. This is the rule for all sizes that people write; a size in a record is
// parsed with ParseWhole (base/text/whole_number.h).
// INVALID_ARGUMENT: no whole number, an unknown unit, less than 1 MiB without a unit, or more than 2^63 - 1.
absl::StatusOr<std::int64_t> ParseSize(std::string_view text);

// "1.0 GiB (1073741824)"; "512 B" below 1 KiB. Cut after one decimal place, so it never shows more than there is.
std::string FormatSize(std::int64_t bytes);

// The same, but "unknown" for 0: CSI drivers leave out a size that they do not know.
std::string FormatKnownSize(std::int64_t bytes);

// The exact size with the largest unit that fits: "1 GiB", "1536 MiB", "4097 bytes".
std::string SizeText(std::uint64_t bytes);

}  // namespace mooring
