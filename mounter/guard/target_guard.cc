#include "mounter/guard/target_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <optional>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/target_mark.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

// Neither asks a server that may hang, nor triggers an automount.
constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;

struct Place {
  std::pair<dev_t, ino_t> identity;
  std::uint64_t mount = 0;
  bool operator==(const Place&) const = default;
};

std::optional<Place> PlaceOf(int directory, const std::string& path, int flags) {
  struct statx status = {};
  if (::statx(directory, path.c_str(), flags, STATX_INO | sys::kStatxMntId, &status) != 0) return std::nullopt;
  return Place{{makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino}, status.stx_mnt_id};
}

absl::Status Refuse(const Target& target) {
  const std::string message = fmt::format(
      "{} is, or lies in, a directory of the system or of the plugin, possibly under another path: the mount helper "
      "does not mount there",
      Quote(target.path()));
  log::Once(log::Level::kWarning, "refused a target in a forbidden directory", {{"request", message}});
  return FailedPrecondition(message);
}

}  // namespace

TargetGuard::TargetGuard(const std::vector<std::string>& trees, const std::vector<std::string>& places)
    : trees_(IdentitiesOf(trees)), places_(IdentitiesOf(places)) {}

std::set<TargetGuard::Identity> TargetGuard::IdentitiesOf(const std::vector<std::string>& paths) {
  const std::optional<Place> root = PlaceOf(AT_FDCWD, "/", kFlags);
  std::set<Identity> identities;
  for (const std::string& path : paths) {
    const std::optional<Place> place = PlaceOf(AT_FDCWD, path, kFlags & ~AT_SYMLINK_NOFOLLOW);
    if (place && (!root || place->identity != root->identity)) identities.insert(place->identity);
  }
  return identities;
}

absl::Status TargetGuard::CheckTarget(const Target& target) const {
  // If statx fails, the target is no forbidden directory, because statx on those succeeded at the start.
  if (const std::optional<Place> itself = PlaceOf(target.directory().get(), target.name(), kFlags)) {
    if (trees_.contains(itself->identity) || places_.contains(itself->identity)) return Refuse(target);
  }
  // Opens one directory after the other. A path such as "../.." could skip one that is moved meanwhile.
  UniqueFd opened;
  int directory = target.directory().get();
  std::optional<Place> below;
  for (int depth = 0; directory >= 0 && depth < PATH_MAX; ++depth) {
    const std::optional<Place> here = PlaceOf(directory, "", kFlags | AT_EMPTY_PATH);
    if (!here) break;
    if (trees_.contains(here->identity)) return Refuse(target);
    if (here == below) return absl::OkStatus();  // ".." of the root is the root
    below = here;
    opened.reset(::openat(directory, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    directory = opened.get();
  }
  return ErrnoStatus(errno, "inspect the directories above", target.path());
}

bool TargetGuard::MayRemove(const Target& target) const {
  if (IsMarkedTarget(target)) return true;
  log::Once(log::Level::kInfo, "left a target that the mount helper never mounted on", {{"target", target.path()}});
  return false;
}

}  // namespace mooring
