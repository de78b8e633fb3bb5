#include "plugin/backends/btrfs/btrfs_pool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/file/directory.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/subvolumes.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

absl::StatusOr<UniqueFd> OpenDirectory(const std::string& path) {
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.ok()) return ErrnoStatus(errno, "open the directory", path);
  return directory;
}

bool IsOurs(const std::string& name) { return IsStoredId(name) || !IdOfUnfinished(name).empty(); }

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(std::vector<std::string> names, EntriesOf(path));
  std::erase(names, kLockName);
  return names;
}

absl::Status CheckNothingForeign(const std::vector<std::string>& names, const std::string& path) {
  if (names.empty()) return absl::OkStatus();
  return FailedPrecondition(
      "{} holds {}, which is no volume, and a pool needs a btrfs of its own: move it away, or give the pool another "
      "btrfs",
      Quote(path), Quote(names.front()));
}

// mkfs.btrfs makes it 0755, and the volumes in it may be open to all users.
absl::Status MakePrivate(const UniqueFd& directory, const std::string& path) {
  struct stat status = {};
  if (::fstat(directory.get(), &status) != 0) return ErrnoStatus(errno, "look at", path);
  if ((status.st_mode & 077) == 0 || ::fchmod(directory.get(), 0700) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "close to other users the directory", path);
}

absl::Status CheckQuotas(const BtrfsQuotas& quotas, const std::string& path) {
  switch (quotas.mode()) {
    case BtrfsQuotas::Mode::kSimple:
      return absl::OkStatus();
    case BtrfsQuotas::Mode::kFull:
      return FailedPrecondition(
          "the btrfs at {} has full quotas, which do not hold tenants to a size, and the mode is not changed for you: "
          "turn them off (btrfs quota disable {}), so that the plugin turns simple quotas on, or set quota=advisory",
          Quote(path), path);
    case BtrfsQuotas::Mode::kOff:
      break;
  }
  if (KernelHasSimpleQuotas()) return absl::OkStatus();
  return FailedPrecondition(
      "this kernel has no simple quotas of btrfs, so volumes in {} would have no size: use Linux 6.7 or newer, or set "
      "quota=advisory, which enforces no size",
      Quote(path));
}

}  // namespace

std::string IdOfUnfinished(const std::string& name) {
  return IdOfFile(name, kDeletingEnd) + IdOfFile(name, kMakingEnd);  // at least one is empty
}

absl::Status CheckBtrfsPool(const PoolConfig& pool, bool is_first_start) {
  const auto check = [&]() -> absl::Status {
    const absl::StatusOr<std::vector<std::string>> there = EntriesOrNone(pool.path);
    if (!is_first_start && there.ok() && there->empty()) MOORING_RETURN_IF_ERROR(CheckIsMounted(pool.path));
    MOORING_ASSIGN_OR_RETURN(const UniqueFd directory, OpenDirectory(pool.path));
    MOORING_RETURN_IF_ERROR(CheckIsTopOfBtrfs(directory, pool.path));
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(pool.path));
    const bool has_volumes = std::any_of(names.begin(), names.end(), IsOurs);
    if (!has_volumes) MOORING_RETURN_IF_ERROR(CheckNothingForeign(names, pool.path));
    MOORING_RETURN_IF_ERROR(MakePrivate(directory, pool.path));
    if (IsAdvisory(pool) || has_volumes) return absl::OkStatus();
    MOORING_ASSIGN_OR_RETURN(const BtrfsQuotas quotas, BtrfsQuotas::Of(directory, pool.path));
    return CheckQuotas(quotas, pool.path);
  };
  const absl::Status checked = check();
  return checked.ok() ? checked : Annotate(checked, fmt::format("pool {}", pool.name));
}

absl::Status CheckIsMounted(const std::string& directory) {
  struct statfs filesystem = {};
  struct stat status = {};
  const bool is_there = ::statfs(directory.c_str(), &filesystem) == 0 && ::stat(directory.c_str(), &status) == 0;
  if (!is_there && errno != ENOENT) return ErrnoStatus(errno, "look at", directory);
  if (is_there && filesystem.f_type == BTRFS_SUPER_MAGIC && status.st_ino == BTRFS_FIRST_FREE_OBJECTID) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(fmt::format(
      "the btrfs of the pool is not mounted at {}: mount it there, then start the plugin again", Quote(directory)));
}

absl::StatusOr<BtrfsQuotas> QuotasOf(const std::string& directory) {
  MOORING_RETURN_IF_ERROR(CheckIsMounted(directory));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd open, OpenDirectory(directory));
  return BtrfsQuotas::Of(open, directory);
}

std::string QuotaProblem(const BtrfsQuotas& quotas, const std::string& directory) {
  if (quotas.mode() != BtrfsQuotas::Mode::kSimple) {
    return fmt::format(
        "the simple quotas of the btrfs at {} are turned off, so no volume there is held to its size: copy the "
        "volumes to a new pool",
        Quote(directory));
  }
  if (!quotas.is_inconsistent()) return "";
  return fmt::format(
      "the quotas of the btrfs at {} are inconsistent, so volumes there may be held to a wrong size: copy the volumes "
      "to a new pool",
      Quote(directory));
}

}  // namespace mooring
