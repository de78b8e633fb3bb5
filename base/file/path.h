// Paths as text. These functions never look at the disk.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

// Checks `path` and returns it without doubled or trailing slashes. INVALID_ARGUMENT names `field`. The path must be
// absolute and have at most PATH_MAX - 1 bytes. It must not have control characters, components of more than NAME_MAX
// bytes, or "." or ".." components. "/" is refused, because nothing is ever mounted on it.
absl::StatusOr<std::string> NormalisePath(std::string_view field, std::string_view path);

// Whether `path` is `ancestor` or lies below it, by component: /ab is not below /a. Both are normalised.
bool IsBelow(std::string_view path, std::string_view ancestor);
bool IsBelowAny(std::string_view path, const std::vector<std::string>& ancestors);

// "/a/b" -> "/a" and "b". `path` is normalised and not "/".
std::string_view ParentOf(std::string_view path);
std::string_view NameOf(std::string_view path);

}  // namespace mooring
