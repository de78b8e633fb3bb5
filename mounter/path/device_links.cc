#include "mounter/path/device_links.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/file/whole_file.h"
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

bool IsOfItsName(const std::string& link, dev_t device) {
  if (ParentOf(link) != "/dev/mapper") return true;
  return FirstLine(fmt::format("/sys/dev/block/{}:{}/dm/name", major(device), minor(device))) == NameOf(link);
}

static absl::StatusOr<bool> LeadsTo(const std::string& link, dev_t device) {
  struct stat status = {};
  if (::stat(link.c_str(), &status) == 0) {
    return S_ISBLK(status.st_mode) && status.st_rdev == device && IsOfItsName(link, device);
  }
  if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR) return false;  // it leads nowhere
  return ErrnoStatus(errno, "follow", link);
}

static absl::StatusOr<bool> DoesOneLeadTo(const std::string& directory, const std::string& match, dev_t device) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, LinksIn(directory, match));
  absl::StatusOr<bool> found = false;
  for (const std::string& name : names) {
    absl::StatusOr<bool> leads_there = LeadsTo(directory + "/" + name, device);
    if (leads_there.value_or(false)) return true;
    if (!leads_there.ok()) found = leads_there;
  }
  return found;
}

absl::StatusOr<bool> IsBehindLinks(const std::vector<std::string>& links, dev_t device) {
  absl::StatusOr<bool> found = false;
  for (const std::string& text : links) {
    absl::StatusOr<bool> here = DoesOneLeadTo(std::string(ParentOf(text)), std::string(NameOf(text)), device);
    if (here.value_or(false)) return true;
    if (!here.ok()) found = here;
  }
  return found;
}

}  // namespace mooring
