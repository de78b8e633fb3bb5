// Work that may hang, on a filesystem whose server does not answer: done in a child process, which is left behind where
// nothing ends it.
#ifndef MOORING_CLI_DOCTOR_CHILD_H_
#define MOORING_CLI_DOCTOR_CHILD_H_

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace mooring::cli::doctor_area {

struct ChildOutput {
  std::string bytes;
  bool hung = false;  // the child lives, and wrote nothing for as long as the patience was
};

// What `work`, in a child, writes to the descriptor it is given, until it returns. An error: no child could be made.
absl::StatusOr<ChildOutput> ReadFromChild(const std::function<void(int fd)>& work, std::chrono::milliseconds patience);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_CHILD_H_
