#include "manager/volumes/places.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file/path.h"
#include "base/status.h"

namespace mooring::manager {
namespace {

// Returns errno, or 0 if the directory exists now.
int MakeWithParents(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return 0;
  if (errno != ENOENT) return errno;
  if (const int error = MakeWithParents(std::string(ParentOf(path))); error != 0) return error;
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

}  // namespace

absl::Status MakeDirectories(const std::string& path) {
  constexpr int kAttempts = 64;  // each may lose a race against a volume that removes a common parent
  int error = MakeWithParents(path);
  for (int attempt = 1; attempt < kAttempts && error == ENOENT; ++attempt) error = MakeWithParents(path);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "make the directory", path);
}

void RemoveEmptyDirectories(std::string path, const std::string& top) {
  while (path != top && IsBelow(path, top)) {
    if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return;
    path = ParentOf(path);
  }
}

}  // namespace mooring::manager
