// What `mooring doctor` is asked about, on the command line's terms: resolved in a child process, for every look at a
// path may hang.
#ifndef MOORING_CLI_DOCTOR_SUBJECT_H_
#define MOORING_CLI_DOCTOR_SUBJECT_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"

namespace mooring::cli::doctor_area {

struct Subject {
  bool is_volume = false;  // a word without a slash that is nothing in the working directory
  std::string path;        // absolute, without links: as it was given, made absolute, where that cannot be told in time
  bool empty_directory = false;
};

// Errors are those of mounts_area::ResolvePath, and that there is no child process.
absl::StatusOr<Subject> ResolveSubject(const std::string& given, std::chrono::milliseconds patience);

// The same directory without links, or as it was given.
std::string ResolveStateDir(const std::string& given, std::chrono::milliseconds patience);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_SUBJECT_H_
