#include "mounter/mount/new_mount.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mount/filesystem_context.h"
#include "mounter/mount/libmount_call.h"
#include "mounter/propagation.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

// "rw,relatime" is what the kernel does without a word.
std::string FlagWords(const MountFlags& flags) { return flags == MountFlags() ? "" : ToString(flags); }

std::string LinkTo(const UniqueFd& file) { return fmt::format("/proc/self/fd/{}", file.get()); }

mount_attr Exactly(const MountFlags& flags) {
  mount_attr attributes = {};
  attributes.attr_clr = KnownAttributes();
  attributes.attr_set = AttributesOf(flags);
  return attributes;
}

absl::Status SetAttributes(const UniqueFd& fd, mount_attr attributes, bool recursive, std::string_view what,
                           const std::string& path) {
  const unsigned flags = AT_EMPTY_PATH | (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0U);
  if (::mount_setattr(fd.get(), "", flags, &attributes, sizeof(attributes)) == 0) return absl::OkStatus();
  return path.empty() ? ErrnoStatus(errno, what)
                      : ErrnoStatus(errno, fmt::format("{} of the new mount of", what), path);
}

constexpr mode_t kModeOfNewRoot = 0755;  // of mkfs, and of SourceGuard::HandToTasks

// Whether owner and mode are as they were made, or already as asked for: an earlier call may have been interrupted.
bool IsNew(const struct stat& root, const NewRoot& asked) {
  const mode_t mode = root.st_mode & 07777;
  return (root.st_uid == 0 || root.st_uid == asked.uid) && (root.st_gid == 0 || root.st_gid == asked.gid) &&
         (mode == kModeOfNewRoot || mode == asked.mode);
}

// Removes a lost+found that is as mkfs or e2fsck made it. rmdir(2) refuses one that holds something.
bool RemoveUntouchedLostFound(const UniqueFd& root) {
  constexpr char kName[] = "lost+found";
  struct stat found = {};
  if (::fstatat(root.get(), kName, &found, AT_SYMLINK_NOFOLLOW) != 0) return false;
  const bool untouched =
      S_ISDIR(found.st_mode) && found.st_uid == 0 && found.st_gid == 0 && (found.st_mode & 07777) == 0700;
  return untouched && ::unlinkat(root.get(), kName, AT_REMOVEDIR) == 0;
}

// The first two names in the directory are enough. An unreadable directory is not empty.
bool IsEmptied(const UniqueFd& root) {
  UniqueFd copy(::openat(root.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> open(copy.ok() ? ::fdopendir(copy.get()) : nullptr, ::closedir);
  if (open == nullptr) return false;
  copy.release();
  int others = 0;
  bool has_lost_found = false;
  errno = 0;
  for (const dirent* entry = ::readdir(open.get()); entry != nullptr && others == 0; entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name == "lost+found") {
      has_lost_found = true;
    } else if (name != "." && name != "..") {
      ++others;
    }
  }
  if (errno != 0 || others > 0) return false;
  return !has_lost_found || RemoveUntouchedLostFound(root);
}

}  // namespace

// The mounts below are another's, with reasons for their flags: a strictatime may not undo a noatime.
absl::Status NewMount::AddBelow(MountFlags flags, Propagation propagation) {
  if (flags.atime != Atime::kNoatime) flags.atime = Atime::kRelatime;
  mount_attr attributes = {};
  // mount_setattr(2) refuses new access times unless the old ones are cleared.
  attributes.attr_clr = flags.atime == Atime::kNoatime ? MOUNT_ATTR__ATIME : 0;
  attributes.attr_set = AttributesOf(flags);
  attributes.propagation = MountBitsOf(propagation);
  if (attributes.attr_set == 0 && attributes.propagation == 0) return absl::OkStatus();
  return SetAttributes(fd_, attributes, true, "add the flags " + ToString(flags) + " to the mounts below the root",
                       source_);
}

absl::Status NewMount::Set(const MountFlags& flags, Propagation propagation, bool recursive) {
  if (recursive) MOORING_RETURN_IF_ERROR(AddBelow(flags, propagation));
  mount_attr attributes = Exactly(flags);
  attributes.propagation = MountBitsOf(propagation);
  return SetAttributes(fd_, attributes, false, "set the flags " + ToString(flags), source_);
}

absl::Status NewMount::MapIds(const UniqueFd& user_namespace, bool recursive) {
  mount_attr attributes = {};
  attributes.attr_set = MOUNT_ATTR_IDMAP;
  attributes.userns_fd = static_cast<std::uint64_t>(user_namespace.get());
  const absl::Status status = SetAttributes(fd_, attributes, recursive, "map the ids", source_);
  if (status.ok()) return status;
  const char* const why =
      absl::IsFailedPrecondition(status)  // EPERM
          ? "its ids are mapped already, or the user namespace is that of this host"
          : "a filesystem in it has no mapped ids on this kernel: ext4, xfs and vfat have them from "
            "Linux 5.12 on, btrfs from 5.15, tmpfs from 6.3";
  return FailedPrecondition("{} ({})", Message(status), why);
}

absl::Status NewMount::Hide() {
  const int error = place_ ? place_->Unmount() : 0;
  if (error != 0) return ErrnoStatus(error, "take out of the private place the new mount of", source_);
  place_.reset();
  return absl::OkStatus();
}

absl::Status NewMount::MoveTo(const UniqueFd& target, const std::string& path) {
  const unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  if (::move_mount(fd_.get(), "", target.get(), "", flags) != 0) return ErrnoStatus(errno, "mount at", path);
  if (place_) place_->Release();
  return absl::OkStatus();
}

absl::Status NewMount::SetPropagation(Propagation propagation, bool recursive) {
  mount_attr attributes = {};
  attributes.propagation = MountBitsOf(propagation);
  return SetAttributes(fd_, attributes, recursive, fmt::format("set the propagation {}", ToString(propagation)),
                       source_);
}

absl::StatusOr<UniqueFd> NewMount::OpenRoot() const {
  UniqueFd root(::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.ok()) return ErrnoStatus(errno, "open the root directory of the new mount of", source_);
  return root;
}

absl::Status NewMount::SetNewRoot(const NewRoot& owner) const {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd root, OpenRoot());
  struct stat status = {};
  if (!IsEmptied(root)) return absl::OkStatus();
  if (::fstat(root.get(), &status) != 0) return ErrnoStatus(errno, "look at the root directory of", source_);
  if (!IsNew(status, owner) || owner == NewRoot()) return absl::OkStatus();
  constexpr uid_t kAsItIs = static_cast<uid_t>(-1);
  if ((owner.mode && ::fchmod(root.get(), *owner.mode) != 0) ||
      ::fchown(root.get(), owner.uid.value_or(kAsItIs), owner.gid.value_or(kAsItIs)) != 0) {
    return ErrnoStatus(errno, "set owner and mode of the root directory of", source_);
  }
  return absl::OkStatus();
}

absl::Status NewMount::SetGroup(gid_t group) const {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd root, OpenRoot());
  struct stat status = {};
  if (::fstat(root.get(), &status) != 0) return ErrnoStatus(errno, "look at the root directory of", source_);
  const mode_t mode = (status.st_mode & 07777) | S_ISGID | S_IRWXG;
  if (status.st_gid == group && (status.st_mode & 07777) == mode) return absl::OkStatus();
  if (::fchown(root.get(), static_cast<uid_t>(-1), group) != 0 || ::fchmod(root.get(), mode) != 0 ||
      ::fstat(root.get(), &status) != 0) {
    return ErrnoStatus(errno, fmt::format("give group {} the root directory of", group), source_);
  }
  if ((status.st_mode & S_ISGID) != 0) return absl::OkStatus();
  return FailedPrecondition(
      "give group {} the root directory of {}: the kernel has left out its set-group-id bit: the plugin needs "
      "CAP_FSETID for that",
      group, Quote(source_));
}

namespace {

using Explain = std::function<absl::Status(int error)>;

// Lets libmount mount into a place of the scratch. Tries once more if the scratch was taken away.
absl::StatusOr<NewMount> MakeInScratch(TargetKind kind, LibmountCall call, const std::string& source,
                                       const Explain& explain) {
  for (bool again = false;; again = true) {
    MOORING_ASSIGN_OR_RETURN(ScratchPlace place, ScratchPlace::Take(kind));
    call.target = place.path();
    const int error = RunLibmount(call);
    if (!again && (error == EINVAL || error == ENOENT) && !place.IsUsable()) continue;
    if (error != 0) return explain(error);
    UniqueFd root = place.Open();
    if (!root.ok()) return ErrnoStatus(errno, "open the new mount of", source);
    return NewMount(std::move(root), source, std::move(place));
  }
}

}  // namespace

absl::StatusOr<NewMount> MakeMount(const MountRequest& request, const std::string& device) {
  const MountRequest complete = WithUsualOptions(request);
  MountFlags flags = request.flags;
  flags.read_only = false;
  LibmountCall writable = {.source = device, .fs_type = request.fs_type, .words = FlagWords(flags)};
  AddWords(writable.words, PropagationWord(request.propagation, false));
  AddWords(writable.words, OptionWords(complete.options));
  LibmountCall read_only = writable;
  AddWords(read_only.words, "ro");
  int refused = 0;
  const auto make = [&](const LibmountCall& call) {
    return MakeInScratch(TargetKind::kDirectory, call, request.source, [&](int error) {
      refused = error;
      return ReasonOfRefusal(complete, device, error);
    });
  };
  if (!request.flags.read_only || HasOptionTable(request.fs_type)) return make(writable);
  absl::StatusOr<NewMount> mount = make(request.by_hand ? read_only : writable);
  // EBUSY: another mount of it has made its superblock the other way.
  const bool is_medium = !request.by_hand && (refused == EACCES || refused == EROFS);
  return refused == EBUSY || is_medium ? make(request.by_hand ? writable : read_only) : std::move(mount);
}

absl::StatusOr<NewMount> MakeHiddenMount(const MountRequest& request, const std::string& device) {
  MOORING_ASSIGN_OR_RETURN(NewMount mount, MakeMount(request, device));
  MOORING_RETURN_IF_ERROR(mount.Hide());
  return mount;
}

absl::StatusOr<NewMount> BindMount(const UniqueFd& source, const std::string& path, TargetKind kind,
                                   const MountFlags& flags, Propagation propagation, bool recursive) {
  LibmountCall call = {.source = LinkTo(source), .fs_type = "none", .words = recursive ? "rbind" : "bind"};
  AddWords(call.words, FlagWords(flags));
  AddWords(call.words, PropagationWord(propagation, recursive));
  return MakeInScratch(kind, std::move(call), path, [&](int error) { return ErrnoStatus(error, "bind", path); });
}

absl::StatusOr<NewMount> CloneMount(const UniqueFd& source, const std::string& path, bool recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | static_cast<unsigned>(AT_EMPTY_PATH) |
                         (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0U);
  UniqueFd tree(::open_tree(source.get(), "", flags));
  if (!tree.ok()) return ErrnoStatus(errno, "clone the mount at", path);
  return NewMount(std::move(tree), path);
}

absl::StatusOr<NewMount> PartOf(NewMount mount, const std::string& subdirectory) {
  open_how how = {};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
  const UniqueFd directory(sys::OpenAt2(mount.fd().get(), subdirectory.c_str(), how));
  if (directory.ok()) return CloneMount(directory, mount.source(), false);
  const std::string what = fmt::format("open the directory {} in the filesystem of", Quote(subdirectory));
  return WithCode(absl::StatusCode::kFailedPrecondition, ErrnoStatus(errno, what, mount.source()));
}

// libmount 2.41 takes no flag away, and 2.38.1 changes no access times to strict ones. Until the second call, the mount
// has the flags of before in addition.
absl::Status SetMountFlags(const UniqueFd& mount, const MountFlags& flags) {
  const int error = RunLibmount({.target = LinkTo(mount), .words = "remount,bind," + ToString(flags)});
  if (error != 0) return ErrnoStatus(error, "set the flags " + ToString(flags));
  return SetAttributes(mount, Exactly(flags), false, "set the flags " + ToString(flags), "");
}

namespace {

// mount(2) takes these words away from the superblock unless they are given again.
absl::StatusOr<std::string> KeptWords(NewMount& view, bool lazytime) {
  MOORING_RETURN_IF_ERROR(view.Set({}, Propagation::kInherit, false));  // then statfs(2) tells of the superblock alone
  struct statfs status = {};
  if (::fstatfs(view.fd().get(), &status) != 0) return ErrnoStatus(errno, "inspect the filesystem");
  const auto flags = static_cast<std::uint64_t>(status.f_flags);
  std::string words;
  if ((flags & ST_RDONLY) != 0) AddWords(words, "ro");
  if ((flags & ST_SYNCHRONOUS) != 0) AddWords(words, "sync");
  if (lazytime) AddWords(words, "lazytime");
  return words;
}

}  // namespace

// A remount by mount(2) also sets the flags of its mount, for a moment to those of a writable one. So it is done to
// another mount of the filesystem. An unbindable mount, or that of a file, gets no other here.
absl::Status ChangeFilesystem(const UniqueFd& mount, const std::string& path, bool lazytime,
                              const std::vector<FilesystemOption>& options) {
  absl::StatusOr<NewMount> view = BindMount(mount, path, TargetKind::kDirectory, {}, Propagation::kPrivate, false);
  if (!view.ok()) return ChangeByKernel(mount, options);
  LibmountCall call = {.target = LinkTo(view->fd()), .words = "remount"};
  MOORING_ASSIGN_OR_RETURN(const std::string kept, KeptWords(*view, lazytime));
  AddWords(call.words, kept);
  AddWords(call.words, OptionWords(options));
  return RunLibmount(call) == 0 ? absl::OkStatus() : ChangeByKernel(view->fd(), options);
}

}  // namespace mooring
