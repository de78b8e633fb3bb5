#include "manager/volumes/places.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file/path.h"
#include "base/status.h"

namespace mooring::manager {
namespace {

// The error that is left; 0: it is there.
int Make(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return 0;
  if (errno != ENOENT) return errno;
  if (const int error = Make(std::string(ParentOf(path))); error != 0) return error;
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

}  // namespace

absl::Status MakeDirectories(const std::string& path) {
  constexpr int kAttempts = 64;  // each a race lost to another volume that removed a directory both have above them
  int error = Make(path);
  for (int attempt = 1; attempt < kAttempts && error == ENOENT; ++attempt) error = Make(path);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "make the directory", path);
}

void RemoveEmptyDirectories(std::string path, const std::string& top) {
  while (path != top && IsBelow(path, top)) {
    if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return;
    path = ParentOf(path);
  }
}

}  // namespace mooring::manager
