#include "mounter/kernel/inspect.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <optional>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/loop/loop_device.h"
#include "mounter/table/known_memory.h"
#include "mounter/table/mount_table.h"
#include "mounter/table/mount_without_table.h"

namespace mooring {
namespace {

absl::StatusOr<bool> IsEmpty(const Target& target, const Target::Status& status) {
  if (status.kind == PathInfo::Kind::kRegular) return status.size == 0;
  // Does not look into a mount, because its filesystem may hang.
  if (status.kind == PathInfo::Kind::kDirectory && !status.mount_root) return target.IsEmptyDirectory();
  return false;
}

// An open file prevents an unmount. So the table is read with an open file only when this process meets a tmpfs for the
// first time. Else it could remember the source of another tmpfs.
absl::StatusOr<std::optional<MountInfo>> MountByOpening(const Target& target, const SourcePolicy& sources) {
  const UniqueFd place(::open(target.Handle().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!place.ok()) return ErrnoStatus(errno, "open", target.path());
  MOORING_ASSIGN_OR_RETURN(std::optional<MountInfo> info, MountWithoutTable(place, target.path(), sources));
  if (!info && MayBeMemory(place)) {
    MOORING_ASSIGN_OR_RETURN(info, LookUpMountOf(place, target.path()));
  }
  return info;
}

// Without statmount(2), because of the kernel or a seccomp profile.
absl::StatusOr<MountInfo> MountOnOlderKernel(const Target& target, const Target::Status& status,
                                             const SourcePolicy& sources) {
  if (status.error == 0) {
    MOORING_ASSIGN_OR_RETURN(std::optional<MountInfo> info, MountByOpening(target, sources));
    if (info && !status.unique_id && info->id != status.mount_id) {
      return NotFound("another mount is at {} by now", Quote(target.path()));
    }
    if (info) return *std::move(info);
  }
  std::uint64_t id = status.mount_id;
  if (status.unique_id) {
    MOORING_ASSIGN_OR_RETURN(id, target.TableMountId());
  }
  return LookUpMount(id, false);
}

absl::StatusOr<MountInfo> MountAt(const Target& target, const Target::Status& status, const SourcePolicy& sources) {
  if (status.unique_id) {
    absl::StatusOr<MountInfo> info = LookUpMount(status.mount_id, true);
    if (!absl::IsUnimplemented(info.status())) return info;
  }
  return MountOnOlderKernel(target, status, sources);
}

// NOT_FOUND: the target was unmounted, or its mount replaced, between two calls.
absl::StatusOr<PathInfo> InspectOnce(const Target& target, const SourcePolicy& sources) {
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  PathInfo info;
  info.kind = status.kind;
  if (status.kind == PathInfo::Kind::kMissing) return info;
  info.device = status.kind == PathInfo::Kind::kBlockDevice ? status.rdev : status.device;
  info.inode = status.inode;
  const absl::StatusOr<bool> empty = IsEmpty(target, status);
  // The path may lead for longer to a directory that rmdir(2) is removing: its process may get no processor meanwhile.
  if (absl::IsNotFound(empty.status())) return PathInfo();
  MOORING_ASSIGN_OR_RETURN(info.empty, empty);
  if (status.mount_root) {
    MOORING_ASSIGN_OR_RETURN(info.mount, MountAt(target, status, sources));
    // The number of a filesystem without a device has the major number 0. A broken filesystem gives no number.
    if (status.error != 0 || major(info.device) == 0) info.device = info.mount->device;
  }
  if (status.error != 0) info.failure = std::generic_category().message(status.error);
  const bool mounted = info.mount && info.mount->device == info.device;
  MOORING_ASSIGN_OR_RETURN(info.loop, LoopByNumber(info.device, mounted));
  return info;
}

}  // namespace

absl::StatusOr<PathInfo> Inspect(const Target& target, const SourcePolicy& sources) {
  constexpr int kAttempts = 64;  // each is a lost race with a mount or unmount here
  absl::StatusOr<PathInfo> info = InspectOnce(target, sources);
  for (int attempt = 1; attempt < kAttempts && absl::IsNotFound(info.status()); ++attempt) {
    info = InspectOnce(target, sources);
  }
  return info;
}

}  // namespace mooring
