#include "base/file/directory.h"

#include <filesystem>
#include <system_error>

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

}  // namespace mooring
