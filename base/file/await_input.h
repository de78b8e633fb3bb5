// Waiting until a descriptor is readable.
#ifndef MOORING_BASE_FILE_AWAIT_INPUT_H_
#define MOORING_BASE_FILE_AWAIT_INPUT_H_

#include <chrono>

#include "base/file/unique_fd.h"

namespace mooring {

// True: the descriptor is readable or closed at the other end, poll(2). False: the deadline comes first, or `fd` is not
// open. A signal does not end the wait.
bool AwaitInput(const UniqueFd& fd, std::chrono::steady_clock::time_point deadline);

bool HasInput(const UniqueFd& fd);  // without waiting

}  // namespace mooring

#endif  // MOORING_BASE_FILE_AWAIT_INPUT_H_
