#include "mounter/mount/filesystem_context.h"

#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mount/memory_mount.h"
#include "mounter/superblock/superblock_guard.h"

namespace mooring {
namespace {

// Each read(2) gives one message of the filesystem, such as "e ext4: …".
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

// `detail` is the filesystem's own message, or empty.
absl::Status FilesystemError(int error, std::string detail, const MountRequest& request) {
  if (error == ENODEV) {
    return FailedPrecondition("the kernel knows no filesystem {}: is a module missing?", request.fs_type);
  }
  absl::Status status = ErrnoStatus(error, fmt::format("mount the {} filesystem of", request.fs_type), request.source);
  // These come from the filesystem, its device or its options, so they are not internal errors.
  if (error == EINVAL || error == EUCLEAN || error == EEXIST || error == EACCES)
    status = WithCode(absl::StatusCode::kFailedPrecondition, status);
  if (detail.empty() && (error == EACCES || error == EROFS))
    detail = "its device is read-only: mount the volume read-only, or make the medium writable";
  if (detail.empty() && error == EUCLEAN)
    detail = "the filesystem is damaged: keep a copy, then check it (e2fsck, xfs_repair, btrfs check)";
  if (detail.empty() && error == EEXIST) detail = "another filesystem with its UUID is in use: is it a copy of that?";
  if (detail.empty() && error == EBUSY) detail = "it is mounted read-only (after an error?) or in use in another way";
  if (detail.empty()) detail = "the kernel's log may say more";
  return absl::Status(status.code(), fmt::format("{} ({})", Message(status), detail));
}

absl::Status ContextError(int error, const UniqueFd& context, const MountRequest& request) {
  return FilesystemError(error, ContextLog(context), request);
}

bool HasSelinux() { return ::access("/sys/fs/selinux", F_OK) == 0; }

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

absl::Status CheckFilesystemOptions(const std::string& fs_type, const std::vector<FilesystemOption>& options) {
  if (fs_type == kMemoryFsType) return CheckMemoryOptions(options);
  for (const FilesystemOption& option : options) {
    if (IsAllowed(fs_type, option)) continue;
    return InvalidArgument("option {} is not allowed for {}", Quote(option.key), fs_type);
  }
  return absl::OkStatus();
}

MountRequest WithUsualOptions(MountRequest request) {
  const auto names_errors = [](const FilesystemOption& option) { return option.key == "errors"; };
  if (!HasSelinux()) std::erase_if(request.options, [](const auto& option) { return IsLabelOption(option.key); });
  if (IsExt(request.fs_type) && std::none_of(request.options.begin(), request.options.end(), names_errors)) {
    request.options.push_back({"errors", "remount-ro"});
  }
  return request;
}

absl::Status ReasonOfRefusal(const MountRequest& request, const std::string& device, int error) {
  const UniqueFd context(::fsopen(request.fs_type.c_str(), FSOPEN_CLOEXEC));
  if (!context.ok()) return FilesystemError(errno, "", request);
  MOORING_RETURN_IF_ERROR(Configure(context, request, device));
  return FilesystemError(error, "", request);  // it would accept it now
}

absl::Status ChangeByKernel(const UniqueFd& mount, const std::vector<FilesystemOption>& options) {
  const UniqueFd context(::fspick(mount.get(), "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH));
  if (!context.ok()) return ErrnoStatus(errno, "open it for a change");
  const auto refused = [&context](int error, const std::string& what) {
    const absl::Status status = ErrnoStatus(error, what);
    const std::string detail = ContextLog(context);
    if (error != EINVAL) return status;
    return FailedPrecondition(Message(status) + (detail.empty() ? "" : " (" + detail + ")"));
  };
  for (const FilesystemOption& option : options) {
    if (SetOption(context, option) != 0) return refused(errno, "option " + option.key);
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_RECONFIGURE, nullptr, nullptr, 0) == 0) return absl::OkStatus();
  return refused(errno, "set its options");
}

}  // namespace mooring
