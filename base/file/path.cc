#include "base/file/path.h"

#include <algorithm>
#include <climits>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

absl::Status CheckWhole(std::string_view field, std::string_view path) {
  if (path.empty()) return InvalidArgument("{} is missing", field);
  if (path.size() >= PATH_MAX) {
    return InvalidArgument("{} is {} bytes long, more than {}", field, path.size(), PATH_MAX - 1);
  }
  if (path[0] != '/') return InvalidArgument("{} {} is not an absolute path", field, Quote(path));
  if (HasControlByte(path)) return InvalidArgument("{} {} has a control character in it", field, Quote(path));
  return absl::OkStatus();
}

absl::Status CheckComponent(std::string_view field, std::string_view path, std::string_view name) {
  if (name == "." || name == "..") {
    return InvalidArgument("{} {} has a '{}' in it: give the path itself", field, Quote(path), name);
  }
  if (name.size() > NAME_MAX) {
    return InvalidArgument("{} {} has a component of {} bytes, more than {}", field, Quote(path), name.size(),
                           NAME_MAX);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> NormalisePath(std::string_view field, std::string_view path) {
  MOORING_RETURN_IF_ERROR(CheckWhole(field, path));
  std::string normal;
  for (std::string_view rest = path; !rest.empty();) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view name = rest.substr(0, end);
    MOORING_RETURN_IF_ERROR(CheckComponent(field, path, name));
    if (!name.empty()) normal.append("/").append(name);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (normal.empty()) return InvalidArgument("{} is the root directory", field);
  return normal;
}

bool IsBelow(std::string_view path, std::string_view ancestor) {
  if (ancestor == "/") return !path.empty() && path[0] == '/';
  if (!path.starts_with(ancestor)) return false;
  return path.size() == ancestor.size() || path[ancestor.size()] == '/';
}

bool IsBelowAny(std::string_view path, const std::vector<std::string>& ancestors) {
  return std::any_of(ancestors.begin(), ancestors.end(),
                     [path](const std::string& ancestor) { return IsBelow(path, ancestor); });
}

std::string_view ParentOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace mooring
