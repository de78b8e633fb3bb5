// An empty standard input for programs that this process runs.
#ifndef MOORING_BASE_EMPTY_INPUT_H_
#define MOORING_BASE_EMPTY_INPUT_H_

#include "base/file/unique_fd.h"

namespace mooring {

// Opens /dev/null; in a container without it, a pipe without a writer. If neither can be opened, the descriptor is not
// ok() and errno is set.
UniqueFd OpenEmptyInput();

}  // namespace mooring

#endif  // MOORING_BASE_EMPTY_INPUT_H_
