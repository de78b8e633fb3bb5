#include "mounter/guard/volume_directories.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include "absl/status/statusor.h"
#include "base/file/path.h"
#include "base/status.h"
#include "mounter/path/target.h"

namespace mooring {
namespace {

// nullopt: it is no directory. AT_STATX_DONT_SYNC: does not ask a server that may hang.
absl::StatusOr<std::optional<std::pair<dev_t, ino_t>>> InodeOf(const UniqueFd& place, const std::string& path) {
  struct statx status = {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (::statx(place.get(), "", flags, STATX_TYPE | STATX_INO, &status) != 0) {
    return ErrnoStatus(errno, "inspect", path);
  }
  if (!S_ISDIR(status.stx_mode)) return std::nullopt;
  return std::pair<dev_t, ino_t>(makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino);
}

absl::StatusOr<bool> HasEntry(const std::string& pool, const std::string& name, const std::pair<dev_t, ino_t>& inode) {
  if (name.empty() || name == "." || name == "..") return false;
  const absl::StatusOr<UniqueFd> directory = OpenNoSymlinks(pool, O_PATH | O_DIRECTORY);
  if (absl::IsNotFound(directory.status())) return false;
  MOORING_RETURN_IF_ERROR(directory.status());
  struct stat there = {};
  if (::fstatat(directory->get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return false;
    return ErrnoStatus(errno, "look at", pool + "/" + name);
  }
  return S_ISDIR(there.st_mode) && there.st_dev == inode.first && there.st_ino == inode.second;
}

// The current path of the open directory, whichever path led to it. Empty: /proc does not tell.
std::string PathOf(const UniqueFd& place) {
  std::array<char, PATH_MAX> path = {};
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", place.get()).c_str(), path.data(), path.size());
  return size < 0 ? std::string() : std::string(path.data(), static_cast<std::size_t>(size));
}

}  // namespace

absl::StatusOr<std::string> VolumeDirectories::NameOf(const UniqueFd& place) const {
  if (pools_.empty()) return "";
  const std::string path = PathOf(place);
  MOORING_ASSIGN_OR_RETURN(const std::optional<Inode> inode, InodeOf(place, path));
  if (!inode) return "";
  const absl::StatusOr<std::string> known = FindKnown(*inode);
  if (known.ok() && !known->empty()) return known;
  const absl::StatusOr<std::string> by_name = FindByName(*inode, std::string(mooring::NameOf(path)));
  if (by_name.ok() && !by_name->empty()) return by_name;
  const absl::Status read = ReadNames(*inode);
  const absl::StatusOr<std::string> found = FindKnown(*inode);
  if (found.ok() && !found->empty()) return found;
  for (const absl::Status& problem : {known.status(), by_name.status(), read, found.status()}) {
    MOORING_RETURN_IF_ERROR(problem);
  }
  return "";
}

absl::StatusOr<std::string> VolumeDirectories::FindKnown(const Inode& inode) const {
  Entry entry;
  {
    const absl::MutexLock lock(&mutex_);
    const auto found = known_.find(inode);
    if (found == known_.end()) return "";
    entry = found->second;
  }
  MOORING_ASSIGN_OR_RETURN(const bool is_there, HasEntry(entry.pool, entry.name, inode));
  return is_there ? entry.name : "";
}

absl::StatusOr<std::string> VolumeDirectories::FindByName(const Inode& inode, const std::string& name) const {
  absl::StatusOr<std::string> found = "";
  for (const std::string& pool : pools_) {
    const absl::StatusOr<bool> is_there = HasEntry(pool, name, inode);
    if (!is_there.ok()) found = is_there.status();
    if (!is_there.value_or(false)) continue;
    const absl::MutexLock lock(&mutex_);
    known_[inode] = {pool, name};
    return name;
  }
  return found;
}

// Forgets all names on the device, among them those of deleted volumes. A pool that is missing has no volumes.
absl::Status VolumeDirectories::ReadNames(const Inode& inode) const {
  const dev_t device = inode.first;
  std::map<Inode, Entry> read;
  absl::Status problem;
  for (const std::string& pool : pools_) {
    absl::StatusOr<UniqueFd> place = OpenNoSymlinks(pool, O_PATH | O_DIRECTORY);
    if (absl::IsNotFound(place.status())) continue;
    const auto own = place.ok() ? InodeOf(*place, pool) : place.status();
    if (!own.ok()) problem = own.status();
    if (!own.ok() || !*own || (*own)->first != device) continue;
    UniqueFd open(::openat(place->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(open.ok() ? ::fdopendir(open.get()) : nullptr, ::closedir);
    if (entries == nullptr) {
      problem = ErrnoStatus(errno, "read the directory", pool);
      continue;
    }
    open.release();
    for (const dirent* entry = ::readdir(entries.get()); entry != nullptr; entry = ::readdir(entries.get())) {
      read[{device, entry->d_ino}] = {pool, entry->d_name};
    }
  }
  const absl::MutexLock lock(&mutex_);
  std::erase_if(known_, [device](const auto& known) { return known.first.first == device; });
  known_.merge(read);
  return known_.contains(inode) ? absl::OkStatus() : problem;
}

}  // namespace mooring
