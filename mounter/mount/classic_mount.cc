#include "mounter/mount/classic_mount.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mount/change_propagation.h"
#include "mounter/sys/syscalls.h"
#include "mounter/table/mount_table.h"

namespace mooring {
namespace {

constexpr unsigned long kRecursive = MS_REC;

std::string Handle(const UniqueFd& fd) { return fmt::format("/proc/self/fd/{}", fd.get()); }

// The time flags are always among them: without any of those a remount keeps what was, mount(2).
unsigned long FlagsOf(const MountFlags& flags) {
  unsigned long bits = 0;
  if (flags.read_only) bits |= MS_RDONLY;
  if (flags.nosuid) bits |= MS_NOSUID;
  if (flags.nodev) bits |= MS_NODEV;
  if (flags.noexec) bits |= MS_NOEXEC;
  if (flags.nodiratime) bits |= MS_NODIRATIME;
  switch (flags.atime) {
    case Atime::kRelatime:
      return bits | MS_RELATIME;
    case Atime::kNoatime:
      return bits | MS_NOATIME;
    case Atime::kStrictatime:
      return bits | MS_STRICTATIME;
  }
  return bits;
}

// nosymfollow, Linux 5.10: glibc 2.36 has neither. It is no flag of ours, and a remount that does not say it takes it
// away.
constexpr unsigned long kNoSymFollow = 256;
constexpr unsigned long kStatNoSymFollow = 0x2000;

bool HasNoSymFollow(const UniqueFd& mount) {
  struct statfs status = {};
  return ::fstatfs(mount.get(), &status) == 0 && (static_cast<unsigned long>(status.f_flags) & kStatNoSymFollow) != 0;
}

// Those that have it, by their ids in mountinfo, and without asking a filesystem, which may hang.
std::set<std::uint64_t> AllWithNoSymFollow() {
  std::set<std::uint64_t> ids;
  std::ifstream table("/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::uint64_t id = 0;
    std::string skipped, options;
    fields >> id >> skipped >> skipped >> skipped >> skipped >> options;
    if ((options + ",").find(",nosymfollow,") != std::string::npos) ids.insert(id);
  }
  return ids;
}

// MS_BIND: of this mount, not of its filesystem.
absl::Status Remount(const UniqueFd& mount, const MountFlags& flags, bool no_sym_follow) {
  const unsigned long bits = MS_REMOUNT | MS_BIND | FlagsOf(flags) | (no_sym_follow ? kNoSymFollow : 0UL);
  if (::mount(nullptr, Handle(mount).c_str(), nullptr, bits, nullptr) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "set the flags " + ToString(flags) + " of the new mount");
}

// What a mount below the new one is to have: its own flags, for which there were reasons, and these.
MountFlags Added(MountFlags own, const MountFlags& flags) {
  own.read_only = own.read_only || flags.read_only;
  own.nosuid = own.nosuid || flags.nosuid;
  own.nodev = own.nodev || flags.nodev;
  own.noexec = own.noexec || flags.noexec;
  own.nodiratime = own.nodiratime || flags.nodiratime;
  if (flags.atime == Atime::kNoatime) own.atime = Atime::kNoatime;
  return own;
}

// Whether an open file is on the mount that was listed with `id`, be that the unique one or mountinfo's: the two cannot
// be mixed up, for the unique ones begin behind the others (Linux 6.8).
bool IsOnMount(const UniqueFd& fd, std::uint64_t id) {
  struct statx status = {};
  constexpr int kFlags = AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  if (::statx(fd.get(), "", kFlags, sys::kStatxMntIdUnique, &status) == 0 &&
      (status.stx_mask & sys::kStatxMntIdUnique) != 0 && status.stx_mnt_id == id) {
    return true;
  }
  // A unique id where statx(2) has none: only the flags can be compared, afterwards.
  const bool untold = (status.stx_mask & sys::kStatxMntIdUnique) == 0 && id > INT32_MAX;
  return untold || TableMountIdOf(fd) == id;
}

// What mount(2) takes apart that fsconfig(2) takes together.
struct Data {
  unsigned long flags = 0;
  std::string text;
};

Data DataOf(const std::vector<FilesystemOption>& options) {
  Data data;
  for (const FilesystemOption& option : options) {
    if (option.key == "sync") {
      data.flags |= MS_SYNCHRONOUS;
    } else if (option.key == "dirsync") {
      data.flags |= MS_DIRSYNC;
    } else if (option.key == "ro") {
      data.flags |= MS_RDONLY;
    } else if (option.key == "lazytime") {
      data.flags |= MS_LAZYTIME;
    } else {
      data.text += data.text.empty() ? "" : ",";
      data.text += option.value ? option.key + "=" + *option.value : option.key;
    }
  }
  return data;
}

absl::StatusOr<std::unique_ptr<NewMount>> Complete(Workshop workshop) {
  UniqueFd fd(::open(workshop.place().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open the new mount at", workshop.place());
  return std::make_unique<ClassicMount>(std::move(workshop), std::move(fd));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NewMount>> ClassicMount::Make(const MountRequest& request, const std::string& device) {
  MOORING_ASSIGN_OR_RETURN(Workshop workshop, Workshop::Open());
  MOORING_RETURN_IF_ERROR(workshop.MakePlace(true));
  const Data data = DataOf(request.options);
  // No MS_RDONLY or the like: those would be the filesystem's.
  const std::string place = workshop.place();
  if (::mount(device.c_str(), place.c_str(), request.fs_type.c_str(), data.flags, data.text.c_str()) != 0) {
    return FilesystemError(errno, "", request);
  }
  return Complete(std::move(workshop));
}

absl::StatusOr<std::unique_ptr<NewMount>> ClassicMount::Clone(const UniqueFd& source, const std::string& path,
                                                              bool recursive) {
  struct stat status = {};
  if (::fstat(source.get(), &status) != 0) return ErrnoStatus(errno, "look at", path);
  MOORING_ASSIGN_OR_RETURN(Workshop workshop, Workshop::Open());
  MOORING_RETURN_IF_ERROR(workshop.MakePlace(S_ISDIR(status.st_mode)));
  const unsigned long flags = MS_BIND | (recursive ? kRecursive : 0UL);
  if (::mount(Handle(source).c_str(), workshop.place().c_str(), nullptr, flags, nullptr) != 0) {
    return ErrnoStatus(errno, "clone the mount at", path);
  }
  return Complete(std::move(workshop));
}

// A private one is made so first: what is mounted below a shared source from now on does not come in.
absl::Status ClassicMount::Set(const MountFlags& flags, Propagation propagation, bool recursive) {
  const bool is_private = propagation == Propagation::kPrivate;
  if (is_private) MOORING_RETURN_IF_ERROR(SetPropagation(propagation, recursive));
  MOORING_RETURN_IF_ERROR(Remount(fd_, flags, HasNoSymFollow(fd_)));
  std::vector<MountInfo> listed;
  if (recursive) {
    MOORING_ASSIGN_OR_RETURN(listed, ListBelow());
    MOORING_RETURN_IF_ERROR(AddFlags(listed, flags));
  }
  if (!is_private) MOORING_RETURN_IF_ERROR(SetPropagation(propagation, recursive));
  if (recursive) return CheckFlagsBelow(listed, flags);
  return is_private || propagation == Propagation::kSlave ? CheckNothingBelow() : absl::OkStatus();
}

// Without the mount itself, which has to be among them: else the table has other names for what is here.
absl::StatusOr<std::vector<MountInfo>> ClassicMount::ListBelow() const {
  MOORING_ASSIGN_OR_RETURN(std::vector<MountInfo> mounts, ListMounts(workshop_.place()));
  const std::size_t own = std::erase_if(mounts, [&](const auto& mount) { return mount.target == workshop_.place(); });
  if (own != 0) return mounts;
  return Internal(fmt::format("the new mount at {} is missing in the list of mounts", Quote(workshop_.place())));
}

absl::Status ClassicMount::Hidden(const MountInfo& mount, const MountFlags& flags) const {
  return FailedPrecondition(fmt::format(
      "the copy of the mount at {} cannot be given the flags {}: another hides it, and without mount_setattr (Linux "
      "5.12) only what is on top is reached",
      Quote(mount.target.substr(workshop_.place().size())), ToString(flags)));
}

// mount(2) has no recursive remount. Whoever may write in the source can rename what is on the way meanwhile, not lead
// out of it without a link; that it leads to the mount that was listed is checked.
absl::Status ClassicMount::AddFlags(const std::vector<MountInfo>& mounts, const MountFlags& flags) const {
  const std::set<std::uint64_t> no_sym_follow = mounts.empty() ? std::set<std::uint64_t>() : AllWithNoSymFollow();
  for (const MountInfo& mount : mounts) {
    const MountFlags wanted = Added(mount.flags, flags);
    if (mount.flags == wanted) continue;
    MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(mount.target, O_PATH));
    if (!IsOnMount(fd, mount.id)) return Hidden(mount, flags);
    const std::optional<std::uint64_t> id = TableMountIdOf(fd);
    MOORING_RETURN_IF_ERROR(Remount(fd, wanted, id && no_sym_follow.contains(*id)));
  }
  return absl::OkStatus();
}

absl::Status ClassicMount::CheckFlagsBelow(const std::vector<MountInfo>& listed, const MountFlags& flags) const {
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, ListBelow());
  for (const MountInfo& mount : mounts) {
    const auto first = std::find_if(listed.begin(), listed.end(), [&](const auto& one) { return one.id == mount.id; });
    // What came in meanwhile, for the source is shared, has to have them, too.
    const MountFlags& own = first == listed.end() ? mount.flags : first->flags;
    if (mount.flags != Added(own, flags)) return Hidden(mount, flags);
  }
  return absl::OkStatus();
}

// What was mounted below a shared source between the copy and its new propagation is in the copy as well.
absl::Status ClassicMount::CheckNothingBelow() const {
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, ListBelow());
  if (mounts.empty()) return absl::OkStatus();
  return Aborted(fmt::format("{} was mounted below the source while that was bound: call again",
                             Quote(mounts.front().target.substr(workshop_.place().size()))));
}

absl::Status ClassicMount::SetPropagation(Propagation propagation, bool recursive) {
  if (propagation == Propagation::kInherit) return absl::OkStatus();
  const int error = TrySetPropagation(fd_, propagation, recursive);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "set the propagation of the new mount");
}

absl::Status ClassicMount::MoveTo(const UniqueFd& place, const std::string& path) {
  if (::mount(Handle(fd_).c_str(), Handle(place).c_str(), nullptr, MS_MOVE, nullptr) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "mount at", path);
}

absl::Status RemountWith(const UniqueFd& mount, const MountFlags& flags) {
  return Remount(mount, flags, HasNoSymFollow(mount));
}

absl::Status RemountFilesystem(const UniqueFd& copy, const std::vector<FilesystemOption>& options) {
  const Data data = DataOf(options);
  const std::string link = Handle(copy);
  if (::mount(nullptr, link.c_str(), nullptr, MS_REMOUNT | data.flags, data.text.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  const absl::Status status = ErrnoStatus(error, "set its options");
  return error == EINVAL ? WithCode(absl::StatusCode::kFailedPrecondition, status) : status;
}

}  // namespace mooring
