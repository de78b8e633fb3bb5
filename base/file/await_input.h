// Waiting until a descriptor is readable.
#pragma once

#include <chrono>

#include "base/file/unique_fd.h"

namespace mooring {

// True: the descriptor is readable or closed at the other end, poll(2). False: the deadline comes first, or `fd` is not
// open. A signal does not end the wait.
bool AwaitInput(const UniqueFd& fd, std::chrono::steady_clock::time_point deadline);

bool HasInput(const UniqueFd& fd);  // without waiting

}  // namespace mooring
