#include "mounter/mount/scratch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file/file_lock.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mount/libmount_call.h"
#include "mounter/path/lazy_unmount.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

constexpr std::array kBases = {"/run/mooring-scratch", "/dev/shm/mooring-scratch"};
constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

std::string LinkTo(const UniqueFd& directory, const std::string& name) {
  return fmt::format("/proc/self/fd/{}/{}", directory.get(), name);
}

// 0: unknown.
std::uint64_t MountOf(const UniqueFd& root) {
  struct statx status = {};
  const int failed = ::statx(root.get(), "", AT_EMPTY_PATH, sys::kStatxMntId, &status);
  const bool is_root = (status.stx_attributes & sys::kStatxAttrMountRoot) != 0;
  return failed == 0 && is_root ? status.stx_mnt_id : 0;
}

// Opens and locks the directory that holds the scratches. Others could have made one in /dev/shm.
absl::StatusOr<UniqueFd> OpenBase(const std::string& path) {
  constexpr std::chrono::seconds kPatience{5};
  for (;;) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, "create the directory", path);
    UniqueFd base(::open(path.c_str(), kDirectoryFlags));
    if (!base.ok() && errno == ENOENT) continue;  // another process has just removed it
    if (!base.ok()) return ErrnoStatus(errno, "open", path);
    MOORING_RETURN_IF_ERROR(LockFile(base, path, kPatience));
    struct stat status = {};
    if (::fstat(base.get(), &status) != 0) return ErrnoStatus(errno, "inspect", path);
    if (status.st_nlink == 0) continue;
    if (status.st_uid == ::geteuid() && (status.st_mode & 0777) == 0700) return base;
    return FailedPrecondition("{} belongs to somebody else, or is open to others: remove it", Quote(path));
  }
}

// Not ok: the directory is locked by another process, or is missing.
UniqueFd OpenLocked(const std::string& path) {
  UniqueFd directory(::open(path.c_str(), kDirectoryFlags));
  if (directory.ok() && ::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) directory.reset();
  return directory;
}

// Removes the scratch with this name if its process has ended. `base` is locked, so no other process is just making it.
void RemoveIfDead(const UniqueFd& base, const std::string& name) {
  {
    const UniqueFd root = OpenLocked(LinkTo(base, name));
    if (!root.ok()) return;
    if (MountOf(root) != 0) UnmountLazily(LinkTo(base, name));
  }
  ::unlinkat(base.get(), name.c_str(), AT_REMOVEDIR);
}

void RemoveDead(const UniqueFd& base) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(LinkTo(base, "."), error)) {
    names.push_back(entry.path().filename());
  }
  for (const std::string& name : names) RemoveIfDead(base, name);
}

std::string NewName(const UniqueFd& base) {
  for (int number = 0;; ++number) {
    std::string name = fmt::format("{}-{}", ::getpid(), number);
    if (::mkdirat(base.get(), name.c_str(), 0700) == 0) return name;
    if (errno != EEXIST) return "";
  }
}

}  // namespace

// The tmpfs, and its places that are free.
class Scratch {
 public:
  static absl::StatusOr<std::shared_ptr<Scratch>> Make() {
    absl::Status failure;
    for (const char* base : kBases) {
      auto made = MakeIn(base);
      if (made.ok()) return made;
      if (failure.ok()) failure = made.status();
    }
    return Annotate(failure, "prepare a private place for new mounts");
  }

  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (!IsOwn()) return;
    const absl::StatusOr<UniqueFd> base = OpenBase(base_);
    if (!base.ok()) return;
    UnmountLazily(fmt::format("/proc/self/fd/{}", root_.get()));
    ::unlinkat(base->get(), name_.c_str(), AT_REMOVEDIR);
    RemoveDead(*base);
    ::rmdir(base_.c_str());  // fails while another process has one there
  }

  // A process that was forked has the memory of its parent, but not its scratch.
  bool IsOwn() const { return owner_ == ::getpid(); }

  bool IsHere() const {
    const UniqueFd found(::open(fmt::format("{}/{}", base_, name_).c_str(), kDirectoryFlags));
    const std::uint64_t mount = found.ok() ? MountOf(found) : 0;
    return mount != 0 && mount == MountOf(root_);
  }

  static std::string NameOf(ScratchPlace::Kind kind, int number) {
    return fmt::format("{}{}", kind == ScratchPlace::Kind::kFile ? 'f' : 'd', number);
  }
  std::string PathOf(ScratchPlace::Kind kind, int number) const {
    return fmt::format("{}/{}/{}", base_, name_, NameOf(kind, number));
  }

  absl::StatusOr<int> Take(ScratchPlace::Kind kind) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int>& free = Free(kind);
    if (!free.empty()) {
      const int number = free.back();
      free.pop_back();
      return number;
    }
    // Made in the tmpfs itself, so that a path to another place does not exist.
    const std::string name = NameOf(kind, made_);
    const bool is_file = kind == ScratchPlace::Kind::kFile;
    const UniqueFd file(is_file ? ::openat(root_.get(), name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1);
    const bool made = is_file ? file.ok() : ::mkdirat(root_.get(), name.c_str(), 0700) == 0;
    if (!made && errno != EEXIST) return ErrnoStatus(errno, "create the mount point", PathOf(kind, made_));
    return made_++;
  }

  void Return(ScratchPlace::Kind kind, int number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Free(kind).push_back(number);
  }

 private:
  Scratch(std::string base, std::string name, UniqueFd below, UniqueFd root)
      : base_(std::move(base)), name_(std::move(name)), below_(std::move(below)), root_(std::move(root)) {}

  static absl::StatusOr<std::shared_ptr<Scratch>> MakeIn(const std::string& path) {
    MOORING_ASSIGN_OR_RETURN(const UniqueFd base, OpenBase(path));
    RemoveDead(base);
    const std::string name = NewName(base);
    if (name.empty()) return ErrnoStatus(errno, "create a directory in", path);
    const std::string link = LinkTo(base, name);
    UniqueFd below = OpenLocked(link);
    const int error = RunLibmount({.source = "mooring-scratch",
                                   .target = link,
                                   .fs_type = "tmpfs",
                                   .words = "nosuid,nodev,noexec,mode=0700,size=64k,unbindable"});
    UniqueFd root = OpenLocked(link);
    if (error == 0 && below.ok() && root.ok() && MountOf(root) != 0) {
      return std::shared_ptr<Scratch>(new Scratch(path, name, std::move(below), std::move(root)));
    }
    root.reset();
    UnmountLazily(link);
    ::unlinkat(base.get(), name.c_str(), AT_REMOVEDIR);
    return ErrnoStatus(error != 0 ? error : EINVAL, "mount a tmpfs at", path + "/" + name);
  }

  std::vector<int>& Free(ScratchPlace::Kind kind) { return kind == ScratchPlace::Kind::kFile ? files_ : directories_; }

  const pid_t owner_ = ::getpid();
  const std::string base_, name_;
  // Both are locked. In a mount namespace without the tmpfs, another process finds the directory below it, and removing
  // that would unmount the tmpfs here.
  const UniqueFd below_, root_;
  std::mutex mutex_;
  std::vector<int> directories_, files_;  // free places
  int made_ = 0;
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

absl::StatusOr<ScratchPlace> ScratchPlace::Take(Kind kind) {
  MOORING_ASSIGN_OR_RETURN(std::shared_ptr<Scratch> scratch, Current());
  MOORING_ASSIGN_OR_RETURN(const int number, scratch->Take(kind));
  return ScratchPlace(std::move(scratch), kind, number);
}

ScratchPlace::ScratchPlace(std::shared_ptr<Scratch> scratch, Kind kind, int number)
    : scratch_(std::move(scratch)), kind_(kind), number_(number), path_(scratch_->PathOf(kind, number)) {}

ScratchPlace::ScratchPlace(ScratchPlace&& other) noexcept = default;

ScratchPlace& ScratchPlace::operator=(ScratchPlace&& other) noexcept {
  std::swap(scratch_, other.scratch_);
  std::swap(kind_, other.kind_);
  std::swap(number_, other.number_);
  std::swap(path_, other.path_);
  return *this;
}

// The kernel may lack memory for a moment. If it fails again, the end of this process unmounts it.
ScratchPlace::~ScratchPlace() {
  if (Unmount() != 0) Unmount();
}

bool ScratchPlace::IsUsable() const {
  if (scratch_->IsHere()) return true;
  Forget(scratch_);
  return false;
}

void ScratchPlace::Release() {
  if (scratch_ == nullptr) return;
  scratch_->Return(kind_, number_);
  scratch_.reset();
}

int ScratchPlace::Unmount() {
  if (scratch_ == nullptr) return 0;
  const int error = UnmountLazily(path_);
  if (error != 0 && error != EINVAL) return error;
  Release();  // EINVAL: nothing was mounted
  return 0;
}

absl::Status PrepareScratch() { return Current().status(); }

void RemoveScratch() {
  const std::lock_guard<std::mutex> lock(current_mutex);
  current.reset();
}

}  // namespace mooring
