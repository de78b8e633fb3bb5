#include "mounter/classic_mount.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/quote.h"
#include "base/status.h"
#include "mounter/mount_table.h"

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

// MS_BIND: of this mount, not of its filesystem.
absl::Status Remount(const UniqueFd& mount, const MountFlags& flags) {
  if (::mount(nullptr, Handle(mount).c_str(), nullptr, MS_REMOUNT | MS_BIND | FlagsOf(flags), nullptr) == 0) {
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

absl::Status ClassicMount::Set(const MountFlags& flags, Propagation propagation, bool recursive) {
  MOORING_RETURN_IF_ERROR(Remount(fd_, flags));
  if (recursive) {
    MOORING_RETURN_IF_ERROR(AddFlagsBelow(flags));
    MOORING_RETURN_IF_ERROR(CheckFlagsBelow(flags));
  }
  return SetPropagation(propagation, recursive);
}

// mount(2) has no recursive remount. Whoever may write in the source can rename what is on the way meanwhile, not lead
// out of it without a link; which mounts it has been in the end is checked.
absl::Status ClassicMount::AddFlagsBelow(const MountFlags& flags) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, ListMounts(workshop_.place()));
  for (const MountInfo& mount : mounts) {
    if (mount.target == workshop_.place()) continue;
    MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(mount.target, O_PATH));
    MOORING_RETURN_IF_ERROR(Remount(fd, Added(mount.flags, flags)));
  }
  return absl::OkStatus();
}

absl::Status ClassicMount::CheckFlagsBelow(const MountFlags& flags) const {
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, ListMounts(workshop_.place()));
  for (const MountInfo& mount : mounts) {
    if (mount.target == workshop_.place() || mount.flags == Added(mount.flags, flags)) continue;
    return FailedPrecondition(fmt::format(
        "the copy of the mount at {} cannot be given the flags {}: another hides it, and without mount_setattr (Linux "
        "5.12) only what is on top is reached",
        Quote(mount.target.substr(workshop_.place().size())), ToString(flags)));
  }
  return absl::OkStatus();
}

absl::Status ClassicMount::SetPropagation(Propagation propagation, bool recursive) {
  unsigned long flags = recursive ? kRecursive : 0UL;
  switch (propagation) {
    case Propagation::kInherit:
      return absl::OkStatus();
    case Propagation::kPrivate:
      flags |= MS_PRIVATE;
      break;
    case Propagation::kSlave:
      flags |= MS_SLAVE;
      break;
    case Propagation::kShared:
      flags |= MS_SHARED;
      break;
  }
  if (::mount(nullptr, Handle(fd_).c_str(), nullptr, flags, nullptr) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "set the propagation of the new mount");
}

absl::Status ClassicMount::MoveTo(const UniqueFd& place, const std::string& path) {
  if (::mount(Handle(fd_).c_str(), Handle(place).c_str(), nullptr, MS_MOVE, nullptr) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "mount at", path);
}

}  // namespace mooring
