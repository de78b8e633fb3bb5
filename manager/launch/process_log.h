// The log of a plugin's process: its stdout and stderr, in a file in its socket directory. It is a file, not a pipe,
// because the process outlives the manager.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring::manager {

inline constexpr std::int64_t kLogKept = 1 << 20;  // bytes

absl::StatusOr<UniqueFd> OpenProcessLog(const std::string& path);  // for appending; mode 0600

// Moves the content to <path>.1 if the log is longer than kLogKept. Lines that are written during that may be lost.
void TrimProcessLog(const std::string& path);

// Gives the last lines as one line for people: "a | b"; "" if the log is empty.
std::string LastLines(const std::string& path);

// The same for a text: the last 5 lines, at most 800 bytes, with control characters and invalid UTF-8 escaped.
std::string LastLinesOf(std::string_view text);

}  // namespace mooring::manager
