#include "mounter/guard/volume_directories.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "absl/status/statusor.h"
#include "base/file/path.h"
#include "mounter/path/target.h"

namespace mooring {
namespace {

// Empty: `place` is no directory. AT_STATX_DONT_SYNC: does not ask a server that may hang.
std::optional<std::pair<dev_t, ino_t>> InodeOf(const UniqueFd& place) {
  struct statx status = {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (::statx(place.get(), "", flags, STATX_TYPE | STATX_INO, &status) != 0) return std::nullopt;
  if (!S_ISDIR(status.stx_mode)) return std::nullopt;
  return std::pair<dev_t, ino_t>(makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino);
}

bool HasEntry(const std::string& pool, const std::string& name, const std::pair<dev_t, ino_t>& inode) {
  const absl::StatusOr<UniqueFd> directory = OpenNoSymlinks(pool, O_PATH | O_DIRECTORY);
  struct stat there = {};
  if (!directory.ok() || name.empty() || name == "." || name == "..") return false;
  if (::fstatat(directory->get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return false;
  return S_ISDIR(there.st_mode) && there.st_dev == inode.first && there.st_ino == inode.second;
}

// The current path of the open directory, whichever path led to it. Empty: /proc does not tell.
std::string PathOf(const UniqueFd& place) {
  std::array<char, PATH_MAX> path = {};
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", place.get()).c_str(), path.data(), path.size());
  return size < 0 ? std::string() : std::string(path.data(), static_cast<std::size_t>(size));
}

}  // namespace

std::string VolumeDirectories::NameOf(const UniqueFd& place) const {
  if (pools_.empty()) return "";
  const std::optional<Inode> inode = InodeOf(place);
  if (!inode) return "";
  std::string name = FindKnown(*inode);
  if (name.empty()) name = FindByName(*inode, std::string(mooring::NameOf(PathOf(place))));
  if (!name.empty()) return name;
  ReadNames(*inode);
  return FindKnown(*inode);
}

std::string VolumeDirectories::FindKnown(const Inode& inode) const {
  Entry entry;
  {
    const absl::MutexLock lock(&mutex_);
    const auto found = known_.find(inode);
    if (found == known_.end()) return "";
    entry = found->second;
  }
  return HasEntry(entry.pool, entry.name, inode) ? entry.name : "";
}

std::string VolumeDirectories::FindByName(const Inode& inode, const std::string& name) const {
  for (const std::string& pool : pools_) {
    if (!HasEntry(pool, name, inode)) continue;
    const absl::MutexLock lock(&mutex_);
    known_[inode] = {pool, name};
    return name;
  }
  return "";
}

// Forgets all names on the device, among them those of deleted volumes.
void VolumeDirectories::ReadNames(const Inode& inode) const {
  const dev_t device = inode.first;
  std::map<Inode, Entry> read;
  for (const std::string& pool : pools_) {
    absl::StatusOr<UniqueFd> place = OpenNoSymlinks(pool, O_PATH | O_DIRECTORY);
    const std::optional<Inode> own = place.ok() ? InodeOf(*place) : std::nullopt;
    if (!own || own->first != device) continue;
    UniqueFd open(::openat(place->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(open.ok() ? ::fdopendir(open.get()) : nullptr, ::closedir);
    if (entries == nullptr) continue;
    open.release();
    for (const dirent* entry = ::readdir(entries.get()); entry != nullptr; entry = ::readdir(entries.get())) {
      read[{device, entry->d_ino}] = {pool, entry->d_name};
    }
  }
  const absl::MutexLock lock(&mutex_);
  std::erase_if(known_, [device](const auto& known) { return known.first.first == device; });
  known_.merge(read);
}

}  // namespace mooring
