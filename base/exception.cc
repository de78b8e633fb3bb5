#include "base/exception.h"

#include <cerrno>
#include <new>
#include <system_error>

#include "base/status.h"

namespace mooring {

absl::Status ExceptionStatus(const std::exception& error) {
  if (const auto* const failed = dynamic_cast<const std::system_error*>(&error)) {
    if (failed->code().category() != std::generic_category()) return Internal("unexpected: {}", error.what());
    if (failed->code().value() != EAGAIN) return ErrnoStatus(failed->code().value(), "an unexpected error");
    return ResourceExhausted(
        "no further thread can be started: the limit of processes is reached (pids.max of the cgroup, TasksMax=, "
        "ulimit -u), or memory is short");
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return ResourceExhausted("memory is short: see the limit of the container or service, and ulimit -v");
  }
  return Internal("unexpected: {}", error.what());
}

}  // namespace mooring
