#include "cli/mounts/paths.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "mounter/sys/syscalls.h"

namespace mooring::cli::mounts_area {
namespace {

absl::StatusOr<std::string> Absolute(std::string path) {
  if (path.empty()) return InvalidArgument("a path is empty");
  if (path[0] != '/') {
    std::error_code error;
    const std::string here = std::filesystem::current_path(error);
    if (error) return ErrnoStatus(error.value(), "find the working directory");
    path = here + "/" + path;
  }
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Empty if realpath(3) fails; then errno is set.
std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real == nullptr ? "" : real.get();
}

absl::Status ParentError(int error, const std::string& given, const std::string& parent) {
  if (error != ENOENT) return ErrnoStatus(error, "find the directory above", given);
  return FailedPrecondition("the parent directory of {} does not exist: create it first (mkdir -p {})", Quote(given),
                            ShellQuote(parent));
}

bool IsLink(const std::string& path) {
  char first = 0;
  return ::readlink(path.c_str(), &first, 1) >= 0;
}

absl::StatusOr<std::string> Whole(const std::string& given, const std::string& path) {
  std::string real = RealPath(path);
  if (!real.empty()) return real;
  if (errno == ENOENT) return FailedPrecondition("{} leads to a path that does not exist", Quote(given));
  return ErrnoStatus(errno, "find", given);
}

}  // namespace

absl::StatusOr<std::string> ResolvePath(const std::string& given) {
  MOORING_ASSIGN_OR_RETURN(const std::string path, Absolute(given));
  if (path == "/") return path;
  const std::string name(NameOf(path));
  if (name == "." || name == "..") return Whole(given, path);
  const std::string parent(ParentOf(path));
  const std::string real = RealPath(parent);
  if (real.empty()) return ParentError(errno, given, parent);
  std::string full = (real == "/" ? "" : real) + "/" + name;
  return IsLink(full) ? Whole(given, full) : full;
}

std::string PathFromHere(pid_t pid, const std::string& path) {
  return pid == 0 ? path : fmt::format("/proc/{}/root{}", pid, path);
}

absl::StatusOr<std::string> ResolvePathIn(pid_t pid, const std::string& given) {
  if (pid == 0) return ResolvePath(given);
  if (given == "/") return given;
  return NormalisePath("in another mount namespace, the path", given);
}

absl::Status CheckMayMount() {
  if (sys::HasCapability(CAP_SYS_ADMIN)) return absl::OkStatus();
  return FailedPrecondition(
      "this command needs the capability CAP_SYS_ADMIN, which user {} does not have here: try again as root (sudo "
      "mooring …)",
      ::geteuid());
}

}  // namespace mooring::cli::mounts_area
