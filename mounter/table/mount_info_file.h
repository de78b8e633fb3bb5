// /proc/PID/mountinfo, proc(5): the mounts of a mount namespace as one of its processes reaches them.
#ifndef MOORING_MOUNTER_TABLE_MOUNT_INFO_FILE_H_
#define MOORING_MOUNTER_TABLE_MOUNT_INFO_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mounter/mounter.h"

namespace mooring {

// A line of it. `id` and `parent` are mountinfo's own numbers, used again after an unmount; `target` is seen from the
// root of the process.
struct TableMount : MountInfo {
  std::uint64_t parent = 0;          // a mount that the process may not see
  std::uint64_t propagate_from = 0;  // the nearest group seen here that it receives from, where that is not `master`
  bool unbindable = false;
};

// In the order of the file: a mount stands behind those it covers. INTERNAL: no such file, or none of this format.
absl::StatusOr<std::vector<TableMount>> ParseMountInfo(const std::string& text);
absl::StatusOr<std::vector<TableMount>> ReadMountInfo(const std::string& path);

// "private", "shared in peer group 3", "slave of 3, shared in peer group 7".
std::string PropagationText(const TableMount& mount);

}  // namespace mooring

#endif  // MOORING_MOUNTER_TABLE_MOUNT_INFO_FILE_H_
