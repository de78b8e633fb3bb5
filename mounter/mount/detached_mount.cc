#include "mounter/mount/detached_mount.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/status.h"
#include "mounter/propagation.h"

namespace mooring {
namespace {

std::uint64_t AttributesOf(const MountFlags& flags) {
  std::uint64_t attributes = 0;
  if (flags.read_only) attributes |= MOUNT_ATTR_RDONLY;
  if (flags.nosuid) attributes |= MOUNT_ATTR_NOSUID;
  if (flags.nodev) attributes |= MOUNT_ATTR_NODEV;
  if (flags.noexec) attributes |= MOUNT_ATTR_NOEXEC;
  if (flags.nodiratime) attributes |= MOUNT_ATTR_NODIRATIME;
  if (flags.atime == Atime::kNoatime) attributes |= MOUNT_ATTR_NOATIME;
  if (flags.atime == Atime::kStrictatime) attributes |= MOUNT_ATTR_STRICTATIME;
  return attributes;
}

mount_attr Exactly(const MountFlags& flags) {
  mount_attr attributes = {};
  attributes.attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                        MOUNT_ATTR_NODIRATIME | MOUNT_ATTR__ATIME;
  attributes.attr_set = AttributesOf(flags);
  return attributes;
}

absl::Status SetAttributes(const UniqueFd& fd, mount_attr attributes, bool recursive, std::string_view what) {
  const unsigned flags = AT_EMPTY_PATH | (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0U);
  if (::mount_setattr(fd.get(), "", flags, &attributes, sizeof(attributes)) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, what);
}

// What the filesystem told its context, one message a read: "e ext4: …".
std::string ContextLog(const UniqueFd& context) {
  std::string log;
  std::array<char, 512> line = {};
  for (ssize_t got = 0; (got = ::read(context.get(), line.data(), line.size())) > 0;) {
    if (!log.empty()) log += "; ";
    log.append(line.data(), static_cast<std::size_t>(got));
    while (!log.empty() && log.back() == '\n') log.pop_back();
  }
  return log;
}

int SetOption(const UniqueFd& context, const FilesystemOption& option) {
  if (!option.value) return ::fsconfig(context.get(), FSCONFIG_SET_FLAG, option.key.c_str(), nullptr, 0);
  return ::fsconfig(context.get(), FSCONFIG_SET_STRING, option.key.c_str(), option.value->c_str(), 0);
}

absl::Status ContextError(int error, const UniqueFd& context, const MountRequest& request) {
  return FilesystemError(error, ContextLog(context), request);
}

absl::Status Configure(const UniqueFd& context, const MountRequest& request, const std::string& device) {
  if (::fsconfig(context.get(), FSCONFIG_SET_STRING, "source", device.c_str(), 0) != 0) {
    return ContextError(errno, context, request);
  }
  for (const FilesystemOption& option : request.options) {
    if (SetOption(context, option) != 0) return Annotate(ContextError(errno, context, request), "option " + option.key);
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return ContextError(errno, context, request);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<NewMount>> DetachedMount::Make(const MountRequest& request, const std::string& device) {
  const UniqueFd context(::fsopen(request.fs_type.c_str(), FSOPEN_CLOEXEC));
  if (!context.ok()) return FilesystemError(errno, "", request);
  MOORING_RETURN_IF_ERROR(Configure(context, request, device));
  UniqueFd mount(::fsmount(context.get(), FSMOUNT_CLOEXEC, 0));
  if (!mount.ok()) return ErrnoStatus(errno, "make a mount of", request.source);
  return std::make_unique<DetachedMount>(std::move(mount));
}

absl::StatusOr<std::unique_ptr<NewMount>> DetachedMount::Clone(const UniqueFd& source, const std::string& path,
                                                               bool recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | static_cast<unsigned>(AT_EMPTY_PATH) |
                         (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0U);
  UniqueFd tree(::open_tree(source.get(), "", flags));
  if (!tree.ok()) return ErrnoStatus(errno, "clone the mount at", path);
  return std::make_unique<DetachedMount>(std::move(tree));
}

// The mounts below are somebody else's, with reasons for their flags: a strictatime may not undo a noatime.
absl::Status DetachedMount::AddBelow(MountFlags flags, Propagation propagation) {
  if (flags.atime != Atime::kNoatime) flags.atime = Atime::kRelatime;
  mount_attr attributes = {};
  attributes.attr_clr = flags.atime == Atime::kNoatime ? MOUNT_ATTR__ATIME : 0;  // the kernel asks for this
  attributes.attr_set = AttributesOf(flags);
  attributes.propagation = MountBitsOf(propagation);
  if (attributes.attr_set == 0 && attributes.propagation == 0) return absl::OkStatus();
  return SetAttributes(fd_, attributes, true, "add the flags " + ToString(flags) + " to the mounts below the new one");
}

absl::Status DetachedMount::Set(const MountFlags& flags, Propagation propagation, bool recursive) {
  if (recursive) MOORING_RETURN_IF_ERROR(AddBelow(flags, propagation));
  mount_attr attributes = Exactly(flags);
  attributes.propagation = MountBitsOf(propagation);
  return SetAttributes(fd_, attributes, false, "set the flags " + ToString(flags) + " of the new mount");
}

absl::Status DetachedMount::MoveTo(const UniqueFd& place, const std::string& path) {
  const unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  if (::move_mount(fd_.get(), "", place.get(), "", flags) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "mount at", path);
}

absl::Status DetachedMount::SetPropagation(Propagation propagation, bool recursive) {
  mount_attr attributes = {};
  attributes.propagation = MountBitsOf(propagation);
  return SetAttributes(fd_, attributes, recursive, "set the propagation of the new mount");
}

absl::Status SetMountAttributes(const UniqueFd& mount, const MountFlags& flags) {
  return SetAttributes(mount, Exactly(flags), false, "set the flags " + ToString(flags));
}

absl::Status ReconfigureFilesystem(const UniqueFd& mount, const std::vector<FilesystemOption>& options) {
  const UniqueFd context(::fspick(mount.get(), "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH));
  if (!context.ok()) return ErrnoStatus(errno, "open it for a change");
  const auto refused = [&context](int error, const std::string& what) {
    const absl::Status status = ErrnoStatus(error, what);
    const std::string words = ContextLog(context);
    if (error != EINVAL) return status;
    return FailedPrecondition(Message(status) + (words.empty() ? "" : " (" + words + ")"));
  };
  for (const FilesystemOption& option : options) {
    if (SetOption(context, option) != 0) return refused(errno, "option " + option.key);
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_RECONFIGURE, nullptr, nullptr, 0) == 0) return absl::OkStatus();
  return refused(errno, "set its options");
}

}  // namespace mooring
