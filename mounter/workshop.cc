#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <vector>

#include "base/directory.h"
#include "base/status.h"
#include "mounter/classic_mount.h"

namespace mooring {
namespace {

// /tmp is for containers whose root is read-only.
constexpr std::array kParents = {"/run", "/tmp"};
constexpr std::string_view kPrefix = "mooring-mount.";
constexpr char kPlace[] = "mount";

UniqueFd OpenAndLock(const std::string& directory) {
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.ok() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) fd.reset();
  return fd;
}

// Whatever is in it goes along: nobody but its owner has seen that.
void TakeDown(const std::string& directory) {
  // Once more after a failure, for what is left stays until the next process needs a workshop.
  if (::umount2(directory.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && errno != EINVAL) {
    ::umount2(directory.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  }
  if (::rmdir(directory.c_str()) != 0 && errno != ENOENT) ::rmdir(directory.c_str());
}

// The lock is held from before there is a place to mount on: so one with a place and without a lock has lost its owner.
void TakeDownIfAbandoned(const std::string& directory) {
  const UniqueFd lock = OpenAndLock(directory);
  struct stat status = {};
  if (!lock.ok() || ::fstat(lock.get(), &status) != 0 || status.st_uid != 0) return;
  if (::fstatat(lock.get(), kPlace, &status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0) TakeDown(directory);
}

absl::StatusOr<std::string> MakeDirectory() {
  int error = 0;
  for (const char* parent : kParents) {
    std::string directory = fmt::format("{}/{}XXXXXX", parent, kPrefix);
    if (::mkdtemp(directory.data()) != nullptr) return directory;
    error = errno;
  }
  return ErrnoStatus(error, "make a directory to prepare mounts in, in /run or", kParents.back());
}

}  // namespace

void Workshop::TakeDownAbandoned() {
  for (const char* parent : kParents) {
    const absl::StatusOr<std::vector<std::string>> names = EntriesOf(parent);
    if (!names.ok()) continue;  // then nothing can be prepared there, either
    for (const std::string& name : *names) {
      if (name.starts_with(kPrefix)) TakeDownIfAbandoned(fmt::format("{}/{}", parent, name));
    }
  }
}

absl::StatusOr<Workshop> Workshop::Open() {
  static std::once_flag once;
  std::call_once(once, TakeDownAbandoned);
  MOORING_ASSIGN_OR_RETURN(std::string directory, MakeDirectory());
  Workshop workshop(std::move(directory));
  MOORING_RETURN_IF_ERROR(workshop.MakePrivate());
  return workshop;
}

absl::Status Workshop::MakePrivate() {
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (::mount("mooring-mount", directory_.c_str(), "tmpfs", kFlags, "mode=0700,size=64k") != 0 ||
      ::mount(nullptr, directory_.c_str(), nullptr, MS_UNBINDABLE, nullptr) != 0) {
    return ErrnoStatus(errno, "prepare a private place for a mount at", directory_);
  }
  lock_ = OpenAndLock(directory_);
  return lock_.ok() ? absl::OkStatus() : ErrnoStatus(errno, "lock", directory_);
}

absl::Status Workshop::MakePlace(bool is_directory) const {
  const int made = is_directory ? ::mkdir(place().c_str(), 0700) : ::mknod(place().c_str(), S_IFREG | 0600, 0);
  return made == 0 ? absl::OkStatus() : ErrnoStatus(errno, "make", place());
}

// The lock goes last, or somebody else would take it for abandoned.
Workshop::~Workshop() {
  if (!directory_.empty()) TakeDown(directory_);
}

}  // namespace mooring
