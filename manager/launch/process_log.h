// What a plugin's process writes to stdout and stderr: a file in its socket directory, of which the end is kept. A file
// and no pipe, since the process outlives the manager.
#ifndef MOORING_MANAGER_LAUNCH_PROCESS_LOG_H_
#define MOORING_MANAGER_LAUNCH_PROCESS_LOG_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring::manager {

inline constexpr std::int64_t kLogKept = 1 << 20;

absl::StatusOr<UniqueFd> OpenProcessLog(const std::string& path);  // to append to, 0600

// Where it has grown beyond kLogKept, what there is becomes <path>.1 and it begins anew. Lines that come in between may
// be lost.
void TrimProcessLog(const std::string& path);

// The last lines as one for people: "a | b"; empty: it wrote nothing.
std::string LastWords(const std::string& path);

// The same of a text: the last 5 lines, at most 800 bytes, what is no text escaped.
std::string LastWordsOf(std::string_view text);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_PROCESS_LOG_H_
