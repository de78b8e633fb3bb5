// pipe(2).
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "base/status.h"

namespace mooring {

struct Pipe {
  UniqueFd reader, writer;
};

inline absl::StatusOr<Pipe> MakePipe() {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace mooring
