#include "cli/doctor/subject.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file/unique_fd.h"
#include "base/status.h"
#include "cli/doctor/child.h"
#include "cli/mounts/paths.h"

namespace mooring::cli::doctor_area {
namespace {

namespace fs = std::filesystem;

// The first byte of the child's answer. Text follows.
constexpr char kVolume = 'v', kDirectory = 'd', kOther = 'o', kError = 'e';

bool IsVolume(const std::string& given) {
  struct stat status = {};
  return given.find('/') == std::string::npos && given != "." && given != ".." && ::lstat(given.c_str(), &status) != 0;
}

std::string ErrorText(const absl::Status& status) {
  return std::string{kError, static_cast<char>(status.code())} + std::string(status.message());
}

void Say(int fd, const std::string& text) {
  // A path fits into one write to a pipe, pipe(7). The reader notices an answer that is cut short.
  if (::write(fd, text.data(), text.size()) < 0) ::_exit(1);
}

// Opening a directory triggers an automount; open(2) with O_PATH does not.
bool IsAutomount(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct statfs filesystem = {};
  return fd.ok() && ::fstatfs(fd.get(), &filesystem) == 0 && filesystem.f_type == AUTOFS_SUPER_MAGIC;
}

void Resolve(const std::string& given, int fd) {
  if (IsVolume(given)) return Say(fd, std::string{kVolume});
  const absl::StatusOr<std::string> path = mounts_area::ResolvePath(given);
  if (!path.ok()) return Say(fd, ErrorText(path.status()));
  Say(fd, kOther + *path);
  std::error_code error;
  if (IsAutomount(*path) || !fs::is_directory(*path, error)) return;
  if (fs::is_empty(*path, error) && !error) Say(fd, {'\0', kDirectory});
}

// The absolute path without a look at the disk, for a path that hangs.
std::string Lexical(const std::string& given) {
  std::error_code error;
  std::string path = fs::absolute(given, error).lexically_normal();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

absl::StatusOr<Subject> FromText(std::string text) {
  Subject subject;
  if (text[0] == kError) return absl::Status(static_cast<absl::StatusCode>(text.at(1)), text.substr(2));
  subject.is_volume = text[0] == kVolume;
  if (subject.is_volume) return subject;
  const std::size_t end = text.find('\0');
  subject.empty_directory = end != std::string::npos;
  subject.path = text.substr(1, end == std::string::npos ? end : end - 1);
  return subject;
}

}  // namespace

absl::StatusOr<Subject> ResolveSubject(const std::string& given, std::chrono::milliseconds patience) {
  MOORING_ASSIGN_OR_RETURN(ChildOutput output, ReadFromChild([&given](int fd) { Resolve(given, fd); }, patience));
  if (!output.bytes.empty()) return FromText(std::move(output.bytes));
  if (!output.hung) return Internal("the process that resolves the path was killed: try again");
  return Subject{.is_volume = false, .path = Lexical(given), .empty_directory = false};
}

std::string ResolveStateDir(const std::string& given, std::chrono::milliseconds patience) {
  const auto resolve = [&given](int fd) {
    std::error_code error;
    const fs::path path = fs::weakly_canonical(given, error);
    if (!error) Say(fd, path.string());
  };
  const absl::StatusOr<ChildOutput> output = ReadFromChild(resolve, patience);
  return output.ok() && !output->bytes.empty() ? output->bytes : given;
}

}  // namespace mooring::cli::doctor_area
