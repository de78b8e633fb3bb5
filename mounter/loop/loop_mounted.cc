#include "mounter/loop/loop_mounted.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <set>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "mounter/loop/settle.h"

namespace mooring {
namespace {

// ext4 and xfs have a directory for each device.
absl::StatusOr<std::string> Ext4OrXfs(const std::string& name) {
  for (const char* type : {"ext4", "xfs"}) {
    MOORING_ASSIGN_OR_RETURN(const bool mounted, IsInSysfs(fmt::format("/sys/fs/{}/{}", type, name)));
    if (mounted) return std::string(type);
  }
  return std::string();
}

// btrfs has a directory for each filesystem, with the names of its devices in it.
absl::StatusOr<std::set<std::string>> DevicesWithBtrfs() {
  std::set<std::string> devices;
  const std::string all = "/sys/fs/btrfs";
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> filesystems, EntriesOrNone(all));
  for (const std::string& filesystem : filesystems) {
    const std::string directory = fmt::format("{}/{}/devices", all, filesystem);
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(directory));
    devices.insert(names.begin(), names.end());
  }
  return devices;
}

// The loop device of an encrypted volume that is open (mounter/encrypted_volumes.h). The kernel calls what lies over a
// device its holders. Over a raw device they are a task's.
absl::StatusOr<bool> HasMapping(const LoopInfo& loop) {
  if (loop.raw || !loop.auto_clear) return false;
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> holders,
                           EntriesOrNone(fmt::format("/sys/class/block/{}/holders", NameOf(loop.device))));
  return !holders.empty();
}

}  // namespace

absl::StatusOr<bool> IsClaimed(int fd, const std::string& device) {
  constexpr int kFlags = O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC;
  const UniqueFd claim(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), kFlags));
  if (claim.ok() || errno == EBUSY) return !claim.ok();
  return ErrnoStatus(errno, "ask for the users of", device);
}

absl::StatusOr<bool> StaysClaimed(int fd, const std::string& device) {
  return AskUntilSettled([&] { return IsClaimed(fd, device); }, [](bool claimed) { return claimed; });
}

absl::StatusOr<bool> IsInSysfs(const std::string& path) {
  if (::access(path.c_str(), F_OK) == 0) return true;
  if (errno == ENOENT) return false;
  return ErrnoStatus(errno, "look at", path);
}

absl::StatusOr<std::string> MountedType(const std::string& name) {
  MOORING_ASSIGN_OR_RETURN(std::string type, Ext4OrXfs(name));
  if (!type.empty()) return type;
  MOORING_ASSIGN_OR_RETURN(const std::set<std::string> with_btrfs, DevicesWithBtrfs());
  return std::string(with_btrfs.contains(name) ? "btrfs" : "");
}

absl::StatusOr<bool> IsMountedAnywhere(const std::string& name) {
  MOORING_ASSIGN_OR_RETURN(const std::string type, MountedType(name));
  return !type.empty();
}

absl::Status AskWhetherMounted(LoopInfo& loop) {
  if (loop.hangs()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(loop.mounted, HasMapping(loop));
  if (loop.mounted) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(loop.mounted, IsMountedAnywhere(std::string(NameOf(loop.device))));
  return absl::OkStatus();
}

// Reads the directory of each btrfs once for all devices.
absl::Status AskWhetherMounted(std::vector<LoopInfo>& loops) {
  std::optional<std::set<std::string>> with_btrfs;
  for (LoopInfo& loop : loops) {
    if (loop.hangs()) continue;
    const std::string name(NameOf(loop.device));
    MOORING_ASSIGN_OR_RETURN(loop.mounted, HasMapping(loop));
    if (loop.mounted) continue;
    MOORING_ASSIGN_OR_RETURN(const std::string type, Ext4OrXfs(name));
    loop.mounted = !type.empty();
    if (loop.mounted) continue;
    if (!with_btrfs) {
      MOORING_ASSIGN_OR_RETURN(with_btrfs, DevicesWithBtrfs());
    }
    loop.mounted = with_btrfs->contains(name);
  }
  return absl::OkStatus();
}

}  // namespace mooring
