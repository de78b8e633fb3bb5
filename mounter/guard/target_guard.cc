#include "mounter/guard/target_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/target.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

// Neither asks a server that may hang, nor triggers an automount.
constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;

absl::Status Refuse(const Target& target) {
  const std::string message = fmt::format(
      "{} is, or lies in, a directory of the system or of the plugin, possibly under another path: the mount helper "
      "does not mount there",
      Quote(target.path()));
  log::Once(log::Level::kWarning, "refused a target in a forbidden directory", {{"request", message}});
  return FailedPrecondition(message);
}

}  // namespace

TargetGuard::TargetGuard(const std::vector<std::string>& trees, const std::vector<std::string>& places,
                         const std::vector<std::string>& roots)
    : trees_(IdentitiesOf(trees)), places_(IdentitiesOf(places)) {
  for (const std::string& root : roots) KeepAbove(root);
}

std::optional<TargetGuard::Place> TargetGuard::PlaceOf(int directory, const std::string& path, int flags) {
  struct statx status = {};
  if (::statx(directory, path.c_str(), flags, STATX_INO | sys::kStatxMntId, &status) != 0) return std::nullopt;
  return Place{{makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino}, status.stx_mnt_id};
}

std::set<TargetGuard::Identity> TargetGuard::IdentitiesOf(const std::vector<std::string>& paths) {
  const std::optional<Place> root = PlaceOf(AT_FDCWD, "/", kFlags);
  std::set<Identity> identities;
  for (const std::string& path : paths) {
    const std::optional<Place> place = PlaceOf(AT_FDCWD, path, kFlags & ~AT_SYMLINK_NOFOLLOW);
    if (place && (!root || place->identity != root->identity)) identities.insert(place->identity);
  }
  return identities;
}

// Nothing is kept on other mounts, because an open directory keeps its mount busy. The mount of "/" always is.
void TargetGuard::KeepAbove(const std::string& root) {
  const std::optional<Place> top = PlaceOf(AT_FDCWD, "/", kFlags);
  for (std::string path = root; top; path = ParentOf(path)) {
    absl::StatusOr<UniqueFd> fd = OpenNoSymlinks(path, O_PATH | O_DIRECTORY);
    const std::optional<Place> place = fd.ok() ? PlaceOf(fd->get(), "", kFlags | AT_EMPTY_PATH) : std::nullopt;
    if (place && place->mount == top->mount && KeptAt(*place) == nullptr) kept_.push_back({*place, *std::move(fd)});
    if (path == "/") return;
  }
}

const TargetGuard::Kept* TargetGuard::KeptAt(const Place& place) const {
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.place == place; });
  return found == kept_.end() ? nullptr : &*found;
}

absl::Status TargetGuard::CheckTarget(const Target& target) const {
  // If statx fails, the target is no forbidden directory, because statx on those succeeded at the start.
  if (const std::optional<Place> itself = PlaceOf(target.directory().get(), target.name(), kFlags)) {
    if (trees_.contains(itself->identity) || places_.contains(itself->identity)) return Refuse(target);
  }
  // Opens one directory after the other. A path such as "../.." could skip one that is moved meanwhile. A kept
  // directory is open already: its parent is asked for, and opened only if it is another one than at the start.
  UniqueFd opened;
  int directory = target.directory().get();
  std::optional<Place> here = PlaceOf(directory, "", kFlags | AT_EMPTY_PATH);
  for (int depth = 0; here && depth < PATH_MAX; ++depth) {
    if (trees_.contains(here->identity)) return Refuse(target);
    std::optional<Place> above;
    if (const Kept* const kept = KeptAt(*here)) {
      directory = kept->fd.get();
      above = PlaceOf(directory, "..", kFlags);
    }
    if (!above || KeptAt(*above) == nullptr) {
      opened.reset(::openat(directory, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
      directory = opened.get();
      above = opened.ok() ? PlaceOf(directory, "", kFlags | AT_EMPTY_PATH) : std::nullopt;
    }
    if (above == here) return absl::OkStatus();  // ".." of the root is the root
    here = above;
  }
  return ErrnoStatus(errno, "inspect the directories above", target.path());
}

bool TargetGuard::MayRemove(const Target& target) const {
  if (IsMarkedTarget(target)) return true;
  log::Once(log::Level::kInfo, "left a target that the mount helper never mounted on", {{"target", target.path()}});
  return false;
}

}  // namespace mooring
