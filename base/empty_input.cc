#include "base/empty_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace mooring {

UniqueFd OpenEmptyInput() {
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.ok()) return null;
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return null;
  ::close(ends[1]);
  return UniqueFd(ends[0]);
}

}  // namespace mooring
