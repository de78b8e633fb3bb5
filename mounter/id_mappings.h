// Mappings of ids, as the option X-mount.idmap of mount(8) has them: "[TYPE:]DISK:MOUNT:COUNT", with spaces between
// several. COUNT ids from DISK on in the filesystem are those from MOUNT on in the mount. TYPE is u for users, g for
// groups, or b for both, the default. An id without a mapping is the overflow id, and nothing can be made under it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

struct IdRange {
  std::uint32_t disk, mount, count;
};

struct IdMappings {
  std::vector<IdRange> users, groups;
};

// INVALID_ARGUMENT: the text has another form. Or the kernel would refuse the mappings, user_namespaces(7): they
// overlap, go beyond the largest id, are too many, or are of users or groups alone.
absl::StatusOr<IdMappings> ParseIdMappings(const std::string& text);

// The mappings of a volume, for its tasks. Root in a user namespace can make any file with the ids on the disk. So it
// may be no user of the host: those have the ids below this one. Kubernetes gives its pods the ids from here on, too.
inline constexpr std::uint32_t kFirstIdOfTasks = 65536;

// INVALID_ARGUMENT: as above, or an id of the mount is below kFirstIdOfTasks.
absl::Status CheckIdMapOfTasks(const std::string& text);

}  // namespace mooring
