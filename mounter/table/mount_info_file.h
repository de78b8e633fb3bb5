// /proc/PID/mountinfo, proc(5): the mounts of a mount namespace as one of its processes reaches them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mounter/mounter.h"

namespace mooring {

// A line of the file. `id` and `parent` are mountinfo's own numbers, which the kernel uses again after an unmount.
// `target` is seen from the root of the process.
struct TableMount : ListedMount {
  std::uint64_t parent = 0;          // the process may not see this mount
  std::uint64_t propagate_from = 0;  // the nearest visible group that it receives from; 0: that is `master`
  bool unbindable = false;
};

// NFS shows each of its mounts with the root "/". Its source ends with the mounted directory: "server:/export/a" gives
// the root "/export/a". Other mounts stay as they are.
void FindNfsRoot(MountInfo& info);

// In the order of the file: a mount follows the mounts that it covers. INTERNAL: there is no such file, or its format
// is another one.
absl::StatusOr<std::vector<TableMount>> ParseMountInfo(const std::string& text);
absl::StatusOr<std::vector<TableMount>> ReadMountInfo(const std::string& path);

// "private", "shared in peer group 3", "slave of 3, shared in peer group 7".
std::string PropagationText(const TableMount& mount);

}  // namespace mooring
