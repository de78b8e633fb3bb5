// What a program is given to read that is to read nothing.
#ifndef MOORING_BASE_EMPTY_INPUT_H_
#define MOORING_BASE_EMPTY_INPUT_H_

#include "base/file/unique_fd.h"

namespace mooring {

// /dev/null; in a container that has none, a pipe that nobody writes to. Not open, and errno: neither can be had.
UniqueFd OpenEmptyInput();

}  // namespace mooring

#endif  // MOORING_BASE_EMPTY_INPUT_H_
