#include "plugin/handover.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <thread>
#include <vector>

#include "base/directory.h"
#include "base/endpoint.h"
#include "base/host.h"
#include "base/log.h"
#include "base/path.h"
#include "base/quote.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "mounter/syscalls.h"

namespace mooring {
namespace {

constexpr char kNote[] = "users";
constexpr std::size_t kMostOfNote = 4096;

bool IsRecord(std::string_view name) {
  return name == "lock" || name.starts_with("catalog.db") || name.starts_with("node.db");
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

// So that whoever is in the group that it had, root's, can make and reach the socket as before.
absl::Status GiveWithGroup(const UniqueFd& directory, const std::string& path, const struct stat& status, uid_t owner) {
  const mode_t mode = (status.st_mode & 07777) | S_ISGID | S_IRWXU | S_IRWXG;
  if (::fchmod(directory.get(), mode) == 0 && ::fchown(directory.get(), owner, static_cast<gid_t>(-1)) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, fmt::format("give the socket's directory to user {}:", owner), path);
}

absl::Status TakeBack(const UniqueFd& directory, const std::string& path, const struct stat& status) {
  constexpr mode_t kGiven = S_ISGID | S_IWGRP;
  if (::fchown(directory.get(), 0, static_cast<gid_t>(-1)) == 0 &&
      ::fchmod(directory.get(), status.st_mode & 07777 & ~kGiven) == 0) {
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

bool IsEverybodys(const std::string& path) { return path == "/" || path == "/run" || path == "/tmp"; }

}  // namespace

Handover::Handover(const RunAs& user) : user_(user) {
  if (::geteuid() != 0) user_ = {::geteuid(), ::getegid()};
}

absl::StatusOr<Handover> Handover::Begin(const std::string& state_dir, const RunAs& user) {
  Handover handover(user);
  if (::geteuid() != 0) return handover;
  const UniqueFd directory = OpenDirectory(AT_FDCWD, state_dir);
  if (!directory.ok()) return ErrnoStatus(errno, "open the state directory", state_dir);
  MOORING_ASSIGN_OR_RETURN(const std::set<uid_t> noted, NotedIn(directory.get(), state_dir));
  handover.before_.insert(noted.begin(), noted.end());
  return handover;
}

// Before anything changes hands: a start that is cut short is carried on by the next, whoever that is to work as. The
// directory may be a user's already: nothing there is opened but what was made here.
absl::Status Handover::Note(int directory, const std::string& path) const {
  if (before_.contains(user_.uid)) return absl::OkStatus();
  const std::string text = fmt::format("{}\n{}\n", fmt::join(before_, "\n"), user_.uid);
  const std::string unfinished = fmt::format("{}.new-{}", kNote, RandomHex(4));
  const UniqueFd file(
      ::openat(directory, unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.ok()) return ErrnoStatus(errno, "note the user in", path + "/" + unfinished);
  const bool done = ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                    ::fsync(file.get()) == 0 && ::renameat(directory, unfinished.c_str(), directory, kNote) == 0 &&
                    ::fsync(directory) == 0;
  if (done) return absl::OkStatus();
  const absl::Status failed = ErrnoStatus(errno, "note the user in", path + "/" + kNote);
  ::unlinkat(directory, unfinished.c_str(), 0);
  return failed;
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

absl::Status Handover::Give(const std::string& path, Holding holding) const {
  if (has_nothing_to_do() || ::geteuid() != 0) return absl::OkStatus();
  const UniqueFd directory = OpenDirectory(AT_FDCWD, path);
  if (!directory.ok()) return ErrnoStatus(errno, "open the directory", path);
  switch (holding) {
    case Holding::kState:
      MOORING_RETURN_IF_ERROR(Note(directory.get(), path));
      MOORING_RETURN_IF_ERROR(GiveFiles(directory.get(), path, IsRecord));
      MOORING_RETURN_IF_ERROR(GiveBelow(directory.get(), path, "volumes", 0));
      MOORING_RETURN_IF_ERROR(GiveBelow(directory.get(), path, "memory", 1));
      MOORING_RETURN_IF_ERROR(GiveBelow(directory.get(), path, "devices", 1));
      break;
    case Holding::kImages:
      MOORING_RETURN_IF_ERROR(GiveFiles(directory.get(), path, IsVolumeFile));
      break;
    case Holding::kDirectories:
      break;
  }
  return GiveOpen(directory.get(), path);
}

// One that a plugin has served which was killed a moment ago may be its child's still (plugin/waiting.h).
absl::Status Handover::GiveSocketDirectory(const std::string& socket_path) const {
  constexpr std::chrono::milliseconds kEnds{300}, kPoll{20};
  const auto deadline = std::chrono::steady_clock::now() + kEnds;
  for (;;) {
    const absl::Status given = TryToGiveSocketDirectory(socket_path);
    if (!absl::IsFailedPrecondition(given) || std::chrono::steady_clock::now() >= deadline) return given;
    std::this_thread::sleep_for(kPoll);
  }
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
  if (names.empty() && !IsEverybodys(path)) return GiveWithGroup(directory, path, status, user_.uid);
  return FailedPrecondition(fmt::format(
      "user {}:{} may not make a socket in {}, which is root's and holds more than that: give --endpoint a directory "
      "of its own, or one that this user may write in",
      user_.uid, user_.gid, Quote(path)));
}

}  // namespace mooring
