#include "mounter/mount/scratch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mount/libmount_call.h"
#include "mounter/path/lazy_unmount.h"
#include "mounter/sys/syscalls.h"
#include "mounter/table/mount_table.h"

namespace mooring {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// 0: unknown.
std::uint64_t MountOf(const UniqueFd& root) {
  struct statx status = {};
  const int failed = ::statx(root.get(), "", AT_EMPTY_PATH, sys::kStatxMntId, &status);
  const bool is_root = (status.stx_attributes & sys::kStatxAttrMountRoot) != 0;
  return failed == 0 && is_root ? status.stx_mnt_id : 0;
}

// Others could have made the directory that holds the scratches, in /dev/shm. NOT_FOUND: it does not exist.
absl::Status CheckBase(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return ErrnoStatus(errno, "inspect", path);
  const bool is_private = S_ISDIR(status.st_mode) && (status.st_mode & 0777) == 0700;
  if (is_private && status.st_uid == ::geteuid()) return absl::OkStatus();
  return FailedPrecondition("{} belongs to somebody else, or is open to others: remove it", Quote(path));
}

// Not ok: errno is EWOULDBLOCK if another process has locked the directory, and ENOENT if it is missing.
UniqueFd OpenLocked(const std::string& path) {
  UniqueFd directory(::open(path.c_str(), kDirectoryFlags));
  if (directory.ok() && ::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) directory.reset();
  return directory;
}

std::string MountPointIn(const std::string& path) { return path + "/tmpfs"; }

// Where nothing is mounted any more, only the directories are removed.
void Remove(const std::string& path) {
  UnmountLazily(MountPointIn(path));
  ::rmdir(MountPointIn(path).c_str());
  ::rmdir(path.c_str());
  ::rmdir(std::string(ParentOf(path)).c_str());  // fails while another process has one there
}

// `lock` keeps others from doing the same.
void RemoveInThread(const std::string& path, UniqueFd lock) {
  try {
    std::thread([path, lock = std::move(lock)] { Remove(path); }).detach();
  } catch (const std::system_error&) {  // too many threads: the next start removes it
  }
}

}  // namespace

class Scratch {
 public:
  static absl::StatusOr<std::shared_ptr<Scratch>> Make() {
    std::string failures;
    for (const char* base : kScratchBases) {
      auto made = MakeIn(base);
      if (!absl::IsNotFound(made.status())) {
        return made.ok() ? std::move(made) : Annotate(made.status(), "prepare a private place for new mounts");
      }
      failures += (failures.empty() ? "" : "; ") + Message(made.status());
    }
    return FailedPrecondition("there is no private place for new mounts: {}", failures);
  }

  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (IsOwn()) Remove(path_);
  }

  // A process that was forked has the memory of its parent, but not its scratch.
  bool IsOwn() const { return owner_ == ::getpid(); }

  bool IsHere() const {
    const UniqueFd found(::open(mount_point().c_str(), kDirectoryFlags));
    const std::uint64_t mount = found.ok() ? MountOf(found) : 0;
    return mount != 0 && mount == MountOf(root_);
  }

  std::string mount_point() const { return MountPointIn(path_); }
  const UniqueFd& root() const { return root_; }
  std::string NewName() { return std::to_string(made_++); }

 private:
  Scratch(std::string path, UniqueFd lock, UniqueFd root)
      : path_(std::move(path)), lock_(std::move(lock)), root_(std::move(root)) {}

  // NOT_FOUND: nothing can be made in this directory. Another process may take a scratch that is not locked yet for a
  // dead one, or remove the directory because it is empty. Then it is tried again, with another name.
  static absl::StatusOr<std::shared_ptr<Scratch>> MakeIn(const std::string& base) {
    constexpr int kMost = 10000;
    for (int number = 0; number < kMost; ++number) {
      if (::mkdir(base.c_str(), 0700) != 0 && errno != EEXIST) return CannotMake(base);
      const absl::Status checked = CheckBase(base);
      if (absl::IsNotFound(checked)) continue;
      if (!checked.ok()) return checked;
      const std::string path = fmt::format("{}/{}-{}", base, ::getpid(), number);
      if (::mkdir(path.c_str(), 0700) != 0) {
        if (errno == EEXIST || errno == ENOENT) continue;
        return CannotMake(path);
      }
      MOORING_ASSIGN_OR_RETURN(std::shared_ptr<Scratch> made, MountIn(path));
      if (made != nullptr) return made;
    }
    return Aborted("others remove each directory below {} at once", Quote(base));
  }

  static absl::Status CannotMake(const std::string& path) {
    const bool unusable = errno == ENOENT || errno == EROFS || errno == EACCES;
    const absl::Status status = ErrnoStatus(errno, "create the directory", path);
    return unusable ? WithCode(absl::StatusCode::kNotFound, status) : status;
  }

  // Null: another process has locked or removed it.
  static absl::StatusOr<std::shared_ptr<Scratch>> MountIn(const std::string& path) {
    UniqueFd lock = OpenLocked(path);
    if (!lock.ok()) return Failed(errno, path);
    const std::string mount_point = MountPointIn(path);
    if (::mkdir(mount_point.c_str(), 0700) != 0) return Failed(errno, path);
    const int error = RunLibmount({.source = "mooring-scratch",
                                   .target = mount_point,
                                   .fs_type = "tmpfs",
                                   .words = "nosuid,nodev,noexec,mode=0700,size=64k,unbindable"});
    if (error != 0) return Failed(error, path);
    UniqueFd root(::open(mount_point.c_str(), kDirectoryFlags));
    if (!root.ok()) return Failed(errno, path);
    return std::shared_ptr<Scratch>(new Scratch(path, std::move(lock), std::move(root)));
  }

  static absl::StatusOr<std::shared_ptr<Scratch>> Failed(int error, const std::string& path) {
    if (error == EWOULDBLOCK || error == ENOENT) return nullptr;
    Remove(path);
    return ErrnoStatus(error, "mount a tmpfs in", path);
  }

  const pid_t owner_ = ::getpid();
  const std::string path_;
  const UniqueFd lock_, root_;
  std::atomic<int> made_ = 0;
};

namespace {

std::mutex current_mutex;
std::shared_ptr<Scratch> current;  // the end of the process removes it

absl::StatusOr<std::shared_ptr<Scratch>> Current() {
  const std::lock_guard<std::mutex> lock(current_mutex);
  if (current == nullptr || !current->IsOwn()) {
    MOORING_ASSIGN_OR_RETURN(current, Scratch::Make());
  }
  return current;
}

void Forget(const std::shared_ptr<Scratch>& scratch) {
  const std::lock_guard<std::mutex> lock(current_mutex);
  if (current == scratch) current.reset();
}

}  // namespace

// Made in the tmpfs itself, so that a path to another place does not exist.
absl::StatusOr<ScratchPlace> ScratchPlace::Take(Kind kind) {
  MOORING_ASSIGN_OR_RETURN(std::shared_ptr<Scratch> scratch, Current());
  std::string name = scratch->NewName();
  const int root = scratch->root().get();
  const int made =
      kind == Kind::kDirectory ? ::mkdirat(root, name.c_str(), 0700) : ::mknodat(root, name.c_str(), S_IFREG | 0600, 0);
  if (made != 0) return ErrnoStatus(errno, "create a mount point in", scratch->mount_point());
  return ScratchPlace(std::move(scratch), kind, std::move(name));
}

ScratchPlace::ScratchPlace(std::shared_ptr<Scratch> scratch, Kind kind, std::string name)
    : scratch_(std::move(scratch)), kind_(kind), name_(std::move(name)), path_(scratch_->mount_point() + "/" + name_) {}

// The kernel may lack memory for a moment. If it fails again, the end of this process unmounts it.
ScratchPlace::~ScratchPlace() {
  if (Unmount() != 0) Unmount();
}

UniqueFd ScratchPlace::Open() const {
  return UniqueFd(::openat(scratch_->root().get(), name_.c_str(), O_PATH | O_CLOEXEC));
}

bool ScratchPlace::IsUsable() const {
  if (scratch_->IsHere()) return true;
  Forget(scratch_);
  return false;
}

void ScratchPlace::Release() {
  if (scratch_ == nullptr) return;
  ::unlinkat(scratch_->root().get(), name_.c_str(), kind_ == Kind::kDirectory ? AT_REMOVEDIR : 0);
  scratch_.reset();
}

int ScratchPlace::Unmount() {
  if (scratch_ == nullptr) return 0;
  const int error = UnmountLazily(path_);
  if (error != 0 && error != EINVAL) return error;
  Release();  // EINVAL: nothing was mounted
  return 0;
}

void RemoveDeadScratches() {
  for (const char* base : kScratchBases) {
    if (!CheckBase(base).ok()) continue;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(base, error)) {
      UniqueFd lock = OpenLocked(entry.path());
      if (lock.ok()) RemoveInThread(entry.path(), std::move(lock));
    }
  }
}

void RemoveScratch() {
  const std::lock_guard<std::mutex> lock(current_mutex);
  current.reset();
}

}  // namespace mooring
