// The error for an exception that was caught at the end of a call, a thread or a program.
#pragma once

#include <exception>

#include "absl/status/status.h"

namespace mooring {

// RESOURCE_EXHAUSTED: there is no memory, no thread or no file descriptor left. Else INTERNAL, or the code of its
// errno.
absl::Status ExceptionStatus(const std::exception& error);

}  // namespace mooring
