// Runs work that may hang, on a filesystem whose server does not answer, in a child process. A child that even SIGKILL
// does not end is left behind.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace mooring::cli::doctor_area {

struct ChildOutput {
  std::string bytes;
  bool hung = false;  // the child has not ended, and wrote nothing for `patience`
};

// Runs `work` in a child and returns the bytes that it writes to its descriptor. An error: no child could be created.
absl::StatusOr<ChildOutput> ReadFromChild(const std::function<void(int fd)>& work, std::chrono::milliseconds patience);

}  // namespace mooring::cli::doctor_area
