#include "mounter/path/device_links.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/status.h"

namespace mooring {

std::string LinksText(const std::string& directory, const std::string& match) { return directory + "/" + match; }

bool MatchesLinks(const std::string& match, const std::string& name) {
  return ::fnmatch(match.c_str(), name.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
}

absl::StatusOr<std::vector<std::string>> LinksIn(const std::string& directory, const std::string& match) {
  MOORING_ASSIGN_OR_RETURN(std::vector<std::string> names, EntriesOrNone(directory));
  std::erase_if(names, [&match](const std::string& name) { return !MatchesLinks(match, name); });
  std::sort(names.begin(), names.end());
  return names;
}

bool IsBehindLinks(const std::vector<std::string>& links, dev_t device) {
  const auto leads_there = [device](const std::string& path) {
    struct stat status = {};
    return ::stat(path.c_str(), &status) == 0 && S_ISBLK(status.st_mode) && status.st_rdev == device;
  };
  return std::any_of(links.begin(), links.end(), [&](const std::string& text) {
    const std::string directory(ParentOf(text)), match(NameOf(text));
    const absl::StatusOr<std::vector<std::string>> names = LinksIn(directory, match);
    return names.ok() && std::any_of(names->begin(), names->end(),
                                     [&](const std::string& name) { return leads_there(directory + "/" + name); });
  });
}

}  // namespace mooring
