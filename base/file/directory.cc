#include "base/file/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/status.h"

namespace mooring {

absl::StatusOr<std::vector<std::string>> EntriesOf(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator at(directory, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    names.push_back(at->path().filename().native());
  }
  if (error) return ErrnoStatus(error.value(), "list", directory);
  return names;
}

absl::StatusOr<std::vector<std::string>> EntriesOrNone(const std::string& directory) {
  absl::StatusOr<std::vector<std::string>> entries = EntriesOf(directory);
  if (absl::IsNotFound(entries.status())) return std::vector<std::string>();
  return entries;
}

bool IsKnownEmpty(const std::string& directory) {
  std::error_code error;
  return std::filesystem::is_empty(directory, error) && !error;
}

absl::Status MakePrivateDirectory(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, "create the directory", directory);
}

absl::Status SyncDirectoryOf(const std::string& path) {
  const std::string directory(ParentOf(path));
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok() || ::fsync(fd.get()) != 0) return ErrnoStatus(errno, "sync the directory", directory);
  return absl::OkStatus();
}

}  // namespace mooring
