// Values of flags, read from what the user wrote. Each gives INVALID_ARGUMENT with what would be right.
#ifndef MOORING_CLI_FLAGS_FLAG_VALUES_H_
#define MOORING_CLI_FLAGS_FLAG_VALUES_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring::cli {

using Bytes = std::int64_t;
using Duration = std::chrono::milliseconds;

absl::StatusOr<Duration> ParseSeconds(const std::string& text);       // above 0, a day at most, fractions allowed
absl::StatusOr<std::int32_t> ParseCount(const std::string& text);     // above 0
absl::StatusOr<std::int64_t> ParseRevision(const std::string& text);  // above 0
absl::StatusOr<std::uint32_t> ParseIndex(const std::string& text);    // from 0 on

// An empty value is nearly always a script's variable that is not set. To send it would mean something else than what
// is written: no source of data, every node. Who means that leaves the flag out. `is_sent`: protobuf wants UTF-8.
absl::Status CheckText(const std::string& text, bool is_sent);

}  // namespace mooring::cli

#endif  // MOORING_CLI_FLAGS_FLAG_VALUES_H_
