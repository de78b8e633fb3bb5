#include "plugin/process/handover.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "base/endpoint.h"
#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

constexpr char kNote[] = "users";
constexpr std::size_t kMostOfNote = 4096;

bool IsRecord(std::string_view name) {
  return name == "lock" || name.starts_with("catalog.db") || name.starts_with("node.db");
}
bool IsOfStateDir(std::string_view name) {
  return IsRecord(name) || name == "volumes" || name == "memory" || name == "devices" || name.starts_with(kNote);
}
bool IsVolumeFile(std::string_view name) { return name.starts_with("vol-") || name.starts_with("snap-"); }

// As it is reached now, and never through a link: ELOOP, or ENOTDIR where it is none.
UniqueFd OpenDirectory(int above, const std::string& name) {
  return UniqueFd(::openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Whom the note names. One that is not root's, or has a second name, is not ours: somebody else may have put it there.
absl::StatusOr<std::set<uid_t>> NotedIn(int directory, const std::string& path) {
  std::set<uid_t> users;
  const UniqueFd file(::openat(directory, kNote, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.ok() && errno == ENOENT) return users;
  struct stat status = {};
  if (!file.ok() || ::fstat(file.get(), &status) != 0) return ErrnoStatus(errno, "read", path + "/" + kNote);
  if (!S_ISREG(status.st_mode) || status.st_uid != 0 || status.st_nlink != 1) return users;
  std::array<char, kMostOfNote> text = {};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return ErrnoStatus(errno, "read", path + "/" + kNote);
  std::istringstream lines(std::string(text.data(), static_cast<std::size_t>(size)));
  for (uid_t user = 0; lines >> user;) users.insert(user);
  return users;
}

bool MayWrite(const struct stat& status, const RunAs& user) {
  constexpr mode_t kBits = S_IWOTH | S_IXOTH;
  const unsigned shift = status.st_uid == user.uid ? 6 : status.st_gid == user.gid ? 3 : 0;
  return ((status.st_mode >> shift) & kBits) == kBits;
}

// Root's group may make and reach the socket as before; another group keeps what it may, and gets nothing. S_ISGID says
// that it was given, and S_ISVTX beside it that root's group could write before, too.
mode_t GivenMode(const struct stat& status) {
  const mode_t mode = (status.st_mode & 07777) | S_ISGID | S_IRWXU;
  if (status.st_gid != 0) return mode;
  return mode | S_IRWXG | ((mode & S_IWGRP) != 0 ? S_ISVTX : 0);
}

mode_t ModeBefore(const struct stat& status) {
  const mode_t mode = status.st_mode & 07777 & ~static_cast<mode_t>(S_ISGID);
  if (status.st_gid != 0) return mode;
  return mode & ~static_cast<mode_t>((mode & S_ISVTX) != 0 ? S_ISVTX : S_IWGRP);
}

absl::Status GiveWithGroup(const UniqueFd& directory, const std::string& path, const struct stat& status, uid_t owner) {
  if (::fchmod(directory.get(), GivenMode(status)) == 0 &&
      ::fchown(directory.get(), owner, static_cast<gid_t>(-1)) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, fmt::format("give the socket's directory to user {}:", owner), path);
}

absl::Status TakeBack(const UniqueFd& directory, const std::string& path, const struct stat& status) {
  if (::fchown(directory.get(), 0, static_cast<gid_t>(-1)) == 0 && ::fchmod(directory.get(), ModeBefore(status)) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "take back the socket's directory", path);
}

// A file that is not the user's yet. What is cached will do, and what is mounted over a file is not ours: a server that
// hangs there must not hold up the start.
bool IsToBeGiven(int directory, const std::string& name, const RunAs& user) {
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  struct statx status = {};
  if (::statx(directory, name.c_str(), kFlags, STATX_TYPE | STATX_UID | STATX_GID, &status) != 0) return false;
  const bool is_mounted = (status.stx_attributes & sys::kStatxAttrMountRoot) != 0;
  return S_ISREG(status.stx_mode) && !is_mounted && (status.stx_uid != user.uid || status.stx_gid != user.gid);
}

// Network filesystems may lock no directories: there nobody is kept out.
bool Locked(int directory, int how) {
  return ::flock(directory, how | LOCK_NB) == 0 || errno == EBADF || errno == ENOLCK || errno == EOPNOTSUPP;
}

absl::StatusOr<uid_t> OwnerOf(int directory, const std::string& path) {
  struct stat status = {};
  if (::fstat(directory, &status) != 0) return ErrnoStatus(errno, "look at the state directory", path);
  return status.st_uid;
}

// Alone, or beside others whose user is ours. False: neither at this moment.
absl::StatusOr<bool> TryLock(int directory, const std::string& path, uid_t user) {
  if (::geteuid() == 0 && Locked(directory, LOCK_EX)) return true;
  if (!Locked(directory, LOCK_SH)) return false;
  MOORING_ASSIGN_OR_RETURN(const uid_t owner, OwnerOf(directory, path));
  if (owner == user || ::geteuid() != 0) return true;
  ::flock(directory, LOCK_UN);
  return false;
}

absl::Status Lock(int directory, const std::string& path, uid_t user) {
  constexpr std::chrono::milliseconds kPatience{1000}, kPoll{10};  // with who begins, or is just ending
  for (const auto deadline = std::chrono::steady_clock::now() + kPatience;;) {
    MOORING_ASSIGN_OR_RETURN(const bool locked, TryLock(directory, path, user));
    if (locked) return absl::OkStatus();
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(kPoll);
  }
  MOORING_ASSIGN_OR_RETURN(const uid_t owner, OwnerOf(directory, path));
  return FailedPrecondition(fmt::format(
      "another process works with the state directory {}, as user {}, and this one is to work as user {}: end that "
      "first (lslocks names it), or start both with the same --user",
      Quote(path), owner, user));
}

// One that a plugin has served which was killed a moment ago may be its child's still (plugin/process/waiting.h).
absl::Status WithPatience(const std::function<absl::Status()>& attempt) {
  constexpr std::chrono::milliseconds kEnds{300}, kPoll{20};
  for (const auto deadline = std::chrono::steady_clock::now() + kEnds;;) {
    const absl::Status done = attempt();
    if (!absl::IsFailedPrecondition(done) || std::chrono::steady_clock::now() >= deadline) return done;
    std::this_thread::sleep_for(kPoll);
  }
}

bool IsEverybodys(const std::string& path) { return path == "/" || path == "/run" || path == "/tmp"; }

}  // namespace

Handover::Handover(const RunAs& user) : user_(user) {
  if (::geteuid() != 0) user_ = {::geteuid(), ::getegid()};
}

absl::StatusOr<Handover> Handover::Begin(const RealDirectory& state_dir, const RunAs& user) {
  Handover handover(user);
  handover.state_dir_ = std::make_shared<const UniqueFd>(::fcntl(state_dir.fd.get(), F_DUPFD_CLOEXEC, 0));
  const int directory = handover.state_dir_->get();
  if (directory < 0) return ErrnoStatus(errno, "keep open the state directory", state_dir.path);
  MOORING_RETURN_IF_ERROR(Lock(directory, state_dir.path, handover.user_.uid));
  if (::geteuid() != 0) return handover;
  MOORING_ASSIGN_OR_RETURN(const std::set<uid_t> noted, NotedIn(directory, state_dir.path));
  handover.before_.insert(noted.begin(), noted.end());
  return handover;
}

// Between the two locks somebody may have had it who begins as another user; whose it is now, only a lock says for
// sure.
absl::Status Handover::Keep() const {
  if (::geteuid() != 0) return absl::OkStatus();
  const auto mine = [this]() -> absl::Status {
    if (Locked(state_dir_->get(), LOCK_SH)) {
      MOORING_ASSIGN_OR_RETURN(const uid_t owner, OwnerOf(state_dir_->get(), "of this plugin"));
      if (owner == user_.uid) return absl::OkStatus();
      ::flock(state_dir_->get(), LOCK_UN);
    }
    return FailedPrecondition("another process began to work with the state directory at this moment");
  };
  return WithPatience(mine);
}

// Before anything changes hands: a start that is cut short is carried on by the next, whoever that is to work as. The
// directory may be a user's already: nothing there is opened but what was made here.
absl::Status Handover::Note(int directory, const std::string& path) const {
  if (before_.contains(user_.uid)) return absl::OkStatus();
  const std::string text = fmt::format("{}\n{}\n", fmt::join(before_, "\n"), user_.uid);
  const std::string unfinished = fmt::format("{}.new-{}", kNote, RandomHex(4));
  const auto failed = [&path](int error) { return ErrnoStatus(error, "note the user in", path + "/" + kNote); };
  const UniqueFd file(
      ::openat(directory, unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.ok()) return failed(errno);
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  int error = written < 0 ? errno : written == static_cast<ssize_t>(text.size()) ? 0 : ENOSPC;
  const bool done = error == 0 && ::fsync(file.get()) == 0 &&
                    ::renameat(directory, unfinished.c_str(), directory, kNote) == 0 && ::fsync(directory) == 0;
  if (done) return absl::OkStatus();
  if (error == 0) error = errno;
  ::unlinkat(directory, unfinished.c_str(), 0);
  return failed(error);
}

absl::Status Handover::GiveOpen(int fd, const std::string& path) const {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return ErrnoStatus(errno, "look at", path);
  const bool has_names = S_ISREG(status.st_mode) && status.st_nlink != 1;
  if ((!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) || has_names || !MayTake(status.st_uid)) {
    return absl::OkStatus();
  }
  if (status.st_uid == user_.uid && status.st_gid == user_.gid) return absl::OkStatus();
  if (::fchownat(fd, "", user_.uid, user_.gid, AT_EMPTY_PATH) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, fmt::format("give to user {}:{}", user_.uid, user_.gid), path);
}

// Those that are the user's already are not opened: there may be many.
absl::Status Handover::GiveFiles(int directory, const std::string& path, bool (*is_ours)(std::string_view)) const {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(fmt::format("/proc/self/fd/{}", directory)));
  for (const std::string& name : names) {
    if (!is_ours(name) || !IsToBeGiven(directory, name, user_)) continue;
    const UniqueFd file(::openat(directory, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!file.ok() && errno == ENOENT) continue;
    if (!file.ok()) return ErrnoStatus(errno, "open", path + "/" + name);
    MOORING_RETURN_IF_ERROR(GiveOpen(file.get(), path + "/" + name));
  }
  return absl::OkStatus();
}

// The files of volumes that many directories down, and the directories on the way.
absl::Status Handover::GiveBelow(int directory, const std::string& path, const std::string& name, int levels) const {
  const UniqueFd below = OpenDirectory(directory, name);
  const std::string there = path + "/" + name;
  const bool none = !below.ok() && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
  if (none) return absl::OkStatus();
  if (!below.ok()) return ErrnoStatus(errno, "open the directory", there);
  if (levels == 0) {
    MOORING_RETURN_IF_ERROR(GiveFiles(below.get(), there, IsVolumeFile));
    return GiveOpen(below.get(), there);
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           EntriesOf(fmt::format("/proc/self/fd/{}", below.get())));
  for (const std::string& entry : names) MOORING_RETURN_IF_ERROR(GiveBelow(below.get(), there, entry, levels - 1));
  return GiveOpen(below.get(), there);
}

absl::Status Handover::CheckMayGive(const RealDirectory& directory, Holding holding,
                                    const std::vector<std::string>& pools) const {
  if (has_nothing_to_do() || ::geteuid() != 0) return absl::OkStatus();
  const int fd = directory.fd.get();
  const std::string& path = directory.path;
  if (!directory.doubtful_link.empty()) {
    return FailedPrecondition(fmt::format(
        "the way to {} leads through the symbolic link {}, in a directory where others than root may write: give the "
        "path without it",
        Quote(path), Quote(directory.doubtful_link)));
  }
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return ErrnoStatus(errno, "look at", path);
  if (user_.is_root() || status.st_uid != 0) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(fmt::format("/proc/self/fd/{}", fd)));
  for (const std::string& name : names) {
    const bool ours = holding == Holding::kState ? IsOfStateDir(name) : IsVolumeFile(name);
    const std::string there = path + "/" + name;
    const auto is_on_the_way = [&there](const std::string& pool) { return IsBelow(pool, there); };
    if (ours || name == "lost+found" || std::any_of(pools.begin(), pools.end(), is_on_the_way)) continue;
    return FailedPrecondition(fmt::format(
        "{} is root's and holds {}, which is none of the plugin's: it is not given to user {}:{}: give the plugin a "
        "directory of its own, or, if this is it, chown it to that user",
        Quote(path), Quote(name), user_.uid, user_.gid));
  }
  return absl::OkStatus();
}

absl::Status Handover::Give(const RealDirectory& directory, Holding holding) const {
  if (has_nothing_to_do() || ::geteuid() != 0) return absl::OkStatus();
  const int fd = directory.fd.get();
  const std::string& path = directory.path;
  switch (holding) {
    case Holding::kState:
      MOORING_RETURN_IF_ERROR(Note(fd, path));
      MOORING_RETURN_IF_ERROR(GiveFiles(fd, path, IsRecord));
      MOORING_RETURN_IF_ERROR(GiveBelow(fd, path, "volumes", 0));
      MOORING_RETURN_IF_ERROR(GiveBelow(fd, path, "memory", 1));
      MOORING_RETURN_IF_ERROR(GiveBelow(fd, path, "devices", 1));
      break;
    case Holding::kImages:
      MOORING_RETURN_IF_ERROR(GiveFiles(fd, path, IsVolumeFile));
      break;
    case Holding::kDirectories:
      break;
  }
  return GiveOpen(fd, path);
}

absl::Status Handover::GiveSocketDirectory(const std::string& socket_path) const {
  return WithPatience([&] { return TryToGiveSocketDirectory(socket_path); });
}

absl::Status Handover::CheckNotServed(const std::string& socket_path) {
  constexpr char kAdvice[] = "end that first, or choose another --endpoint";
  return WithPatience([&] { return IsStaleSocket(socket_path, kAdvice).status(); });
}

absl::Status Handover::TryToGiveSocketDirectory(const std::string& socket_path) const {
  const std::string path(ParentOf(socket_path));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd directory, LockSocketDirectory(socket_path, "--endpoint"));
  MOORING_RETURN_IF_ERROR(ClearSocketPath(socket_path, "--endpoint"));
  struct stat status = {};
  if (::fstat(directory.get(), &status) != 0) return ErrnoStatus(errno, "look at the socket's directory", path);
  if (::geteuid() != 0) return absl::OkStatus();
  const bool is_given = status.st_uid != 0 && before_.contains(status.st_uid) && (status.st_mode & S_ISGID) != 0;
  if (user_.is_root()) return is_given ? TakeBack(directory, path, status) : absl::OkStatus();
  if (MayWrite(status, user_) || (status.st_uid != 0 && !is_given)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(path));
  if (is_given) status.st_mode = ModeBefore(status);
  if (names.empty() && !IsEverybodys(path)) return GiveWithGroup(directory, path, status, user_.uid);
  return FailedPrecondition(fmt::format(
      "user {}:{} may not make a socket in {}, which is root's and holds more than that: give --endpoint a directory "
      "of its own, or one that this user may write in",
      user_.uid, user_.gid, Quote(path)));
}

}  // namespace mooring
