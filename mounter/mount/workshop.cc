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
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/file/directory.h"
#include "base/status.h"
#include "mounter/mount/classic_mount.h"
#include "mounter/sys/lazy_unmount.h"

namespace mooring {
namespace {

// /tmp is for containers whose root is read-only.
constexpr std::array kParents = {"/run", "/tmp"};
constexpr std::string_view kPrefix = "mooring-mount.";
constexpr std::string_view kLockSuffix = ".lock";

// What is still in it goes along: nobody but its owner has seen that.
bool TakeDownOnce(const std::string& directory) {
  if (::umount2(directory.c_str(), UMOUNT_NOFOLLOW) != 0 && errno == EBUSY) {
    const UniqueFd root(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root.ok() || UnmountLazily(fmt::format("/proc/self/fd/{}", root.get())) != 0) return false;
  }
  return ::rmdir(directory.c_str()) == 0 || errno == ENOENT;
}

// Once more after a failure, for what is left stays until the next process needs a workshop. The name of the lock goes
// last: what is left is found by it.
void TakeDown(const std::string& directory) {
  if (!TakeDownOnce(directory) && !TakeDownOnce(directory)) return;
  const std::string lock = directory + std::string(kLockSuffix);
  if (::unlink(lock.c_str()) != 0 && errno != ENOENT) ::unlink(lock.c_str());
}

// False: it is another's, or its name is gone already, and errno is EWOULDBLOCK; or it cannot be locked.
bool Lock(const UniqueFd& file) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return false;
  // /tmp is anybody's: a link to another's file, or a file that is not ours, says nothing.
  if (S_ISREG(status.st_mode) && status.st_uid == ::geteuid() && status.st_nlink == 1) return true;
  errno = EWOULDBLOCK;
  return false;
}

// The lock is held from before there is anything by that name: where nobody holds it, the owner is gone. Nothing in the
// directory is looked at, for what is mounted there may hang.
void TakeDownIfAbandoned(const std::string& lock) {
  const UniqueFd file(::open(lock.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.ok() && Lock(file)) TakeDown(lock.substr(0, lock.size() - kLockSuffix.size()));
}

struct LockedDirectory {
  std::string path;
  UniqueFd lock;
};

// 0, EAGAIN (somebody was faster by this name), or another errno; then nothing is left.
int MakeDirectory(const std::string& parent, LockedDirectory& made) {
  std::string name = fmt::format("{}/{}XXXXXX{}", parent, kPrefix, kLockSuffix);
  UniqueFd lock(::mkostemps(name.data(), kLockSuffix.size(), O_CLOEXEC));
  if (!lock.ok()) return errno;
  // A process that looks for abandoned ones may have come by before it was locked: then it has removed the name.
  if (!Lock(lock)) {
    if (errno == EWOULDBLOCK) return EAGAIN;
    const int error = errno;
    ::unlink(name.c_str());
    return error;
  }
  const std::string directory = name.substr(0, name.size() - kLockSuffix.size());
  if (::mkdir(directory.c_str(), 0700) != 0) {
    const int error = errno == EEXIST ? EAGAIN : errno;
    ::unlink(name.c_str());
    return error;
  }
  made = {directory, std::move(lock)};
  return 0;
}

// As the kernel's table of mounts has it: /run may be a symbolic link.
std::string RealPath(const char* path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path, nullptr), ::free);
  return real == nullptr ? path : real.get();
}

absl::StatusOr<LockedDirectory> MakeDirectory() {
  constexpr int kAttempts = 64;
  int error = 0;
  for (const char* parent : kParents) {
    LockedDirectory made;
    error = EAGAIN;
    for (int attempt = 0; attempt < kAttempts && error == EAGAIN; ++attempt) {
      error = MakeDirectory(RealPath(parent), made);
    }
    if (error == 0) return made;
  }
  return ErrnoStatus(error, "make a directory to prepare mounts in, in /run or", kParents.back());
}

}  // namespace

void Workshop::TakeDownAbandoned() {
  for (const char* parent : kParents) {
    const absl::StatusOr<std::vector<std::string>> names = EntriesOf(parent);
    if (!names.ok()) continue;  // then nothing can be prepared there, either
    for (const std::string& name : *names) {
      if (name.starts_with(kPrefix) && name.ends_with(kLockSuffix)) {
        TakeDownIfAbandoned(fmt::format("{}/{}", parent, name));
      }
    }
  }
}

absl::StatusOr<Workshop> Workshop::Open() {
  static std::once_flag once;
  std::call_once(once, TakeDownAbandoned);
  MOORING_ASSIGN_OR_RETURN(LockedDirectory made, MakeDirectory());
  Workshop workshop(std::move(made.path), std::move(made.lock));
  MOORING_RETURN_IF_ERROR(workshop.MakePrivate());
  return workshop;
}

absl::Status Workshop::MakePrivate() const {
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (::mount("mooring-mount", directory_.c_str(), "tmpfs", kFlags, "mode=0700,size=64k") != 0 ||
      ::mount(nullptr, directory_.c_str(), nullptr, MS_UNBINDABLE, nullptr) != 0) {
    return ErrnoStatus(errno, "prepare a private place for a mount at", directory_);
  }
  return absl::OkStatus();
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
