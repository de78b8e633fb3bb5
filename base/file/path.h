// Paths as plain text: checked at the edge, compared by component, never touched on disk here.
#ifndef MOORING_BASE_FILE_PATH_H_
#define MOORING_BASE_FILE_PATH_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

// An absolute path without NUL, control characters, "." or ".." components, at most PATH_MAX - 1 bytes, components at
// most NAME_MAX; returned without doubled or trailing slashes. "/" itself is refused: nothing is ever mounted on it.
// INVALID_ARGUMENT names `field`.
absl::StatusOr<std::string> NormalisePath(std::string_view field, std::string_view path);

// True when `path` is `ancestor` or lies below it, by component: /ab is not below /a. Both are normalised.
bool IsBelow(std::string_view path, std::string_view ancestor);
bool IsBelowAny(std::string_view path, const std::vector<std::string>& ancestors);

// "/a/b" -> "/a" and "b". `path` is normalised and not "/".
std::string_view ParentOf(std::string_view path);
std::string_view NameOf(std::string_view path);

}  // namespace mooring

#endif  // MOORING_BASE_FILE_PATH_H_
