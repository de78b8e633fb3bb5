// Links to block devices, as udev makes them: "/dev/disk/by-id/nvme-*" is those in that directory whose names match.
// Whose device is behind one, the link says at the time it is looked at.
#ifndef MOORING_MOUNTER_PATH_DEVICE_LINKS_H_
#define MOORING_MOUNTER_PATH_DEVICE_LINKS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring {

std::string LinksText(const std::string& directory, const std::string& match);  // what Allowance::device_links has

bool MatchesLinks(const std::string& match, const std::string& name);  // fnmatch(3)

// The names that match, sorted. A directory that is not there has none.
absl::StatusOr<std::vector<std::string>> LinksIn(const std::string& directory, const std::string& match);

bool IsBehindLinks(const std::vector<std::string>& links, dev_t device);

}  // namespace mooring

#endif  // MOORING_MOUNTER_PATH_DEVICE_LINKS_H_
