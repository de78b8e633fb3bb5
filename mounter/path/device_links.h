// Finds block devices through links that udev makes. "/dev/disk/by-id/nvme-*" stands for the links in that directory
// whose names match. A link is followed on each call, so it always names the device that it leads to now.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring {

std::string LinksText(const std::string& directory, const std::string& match);  // for HelperPolicy::device_links

bool MatchesLinks(const std::string& match, const std::string& name);  // fnmatch(3)

// The matching names, sorted. None if the directory does not exist.
absl::StatusOr<std::vector<std::string>> LinksIn(const std::string& directory, const std::string& match);

// Whether a node below /dev/mapper leads to the mapping of its name. A node that was left behind leads to whichever
// mapping has its number now. True for all other links.
bool IsOfItsName(const std::string& link, dev_t device);

// Whether one of the links, written as by LinksText, leads to the device. An error: none of those that can be followed
// does.
absl::StatusOr<bool> IsBehindLinks(const std::vector<std::string>& links, dev_t device);

}  // namespace mooring
