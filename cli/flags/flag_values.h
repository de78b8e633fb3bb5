// Parsers for the values of flags. Their error is INVALID_ARGUMENT and says which values are valid.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring::cli {

using Bytes = std::int64_t;
using Duration = std::chrono::milliseconds;

// A place in a volume. Programs print it as bytes, so unlike a size (base/text/size.h) it needs no unit.
struct Offset {
  Bytes bytes = 0;
};

absl::StatusOr<Duration> ParseSeconds(const std::string& text);       // above 0, at most a day, fractions allowed
absl::StatusOr<std::int32_t> ParseCount(const std::string& text);     // above 0
absl::StatusOr<std::int64_t> ParseRevision(const std::string& text);  // above 0
absl::StatusOr<std::uint32_t> ParseIndex(const std::string& text);    // 0 or more

absl::StatusOr<Offset> ParseOffset(const std::string& text);  // "4096", "4KiB"

// Refuses an empty value, which is nearly always an unset variable of a script. An empty field of a request would mean
// something else, such as "every node"; for that, the user leaves out the flag. If `is_sent`, the text must be UTF-8,
// as protobuf requires.
absl::Status CheckText(const std::string& text, bool is_sent);

}  // namespace mooring::cli
