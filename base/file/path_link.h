// Paths that lead through a symbolic link, as text.
#pragma once

#include <string>
#include <vector>

#include "base/file/path.h"

namespace mooring {

struct PathLink {
  std::string link, real;  // both normalised
};

// "/link/b" -> "/real/b" if `links` has "/link". Other paths stay as they are.
inline std::string WithoutLinks(const std::string& path, const std::vector<PathLink>& links) {
  for (const PathLink& link : links) {
    if (IsBelow(path, link.link)) return link.real + path.substr(link.link.size());
  }
  return path;
}

}  // namespace mooring
