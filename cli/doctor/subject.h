// The subject of `mooring doctor` from the command line. A child process resolves it, because every look at a path may
// hang.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/statusor.h"

namespace mooring::cli::doctor_area {

struct Subject {
  bool is_volume = false;  // a word without a slash that is not a file in the working directory
  std::string path;        // absolute, without symbolic links; if resolving hangs, the given path made absolute
  bool empty_directory = false;
};

// Errors are those of mounts_area::ResolvePath and of creating the child process.
absl::StatusOr<Subject> ResolveSubject(const std::string& given, std::chrono::milliseconds patience);

// The directory without symbolic links, or as given if it cannot be resolved.
std::string ResolveStateDir(const std::string& given, std::chrono::milliseconds patience);

}  // namespace mooring::cli::doctor_area
