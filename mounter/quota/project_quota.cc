#include "mounter/quota/project_quota.h"

#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include <cerrno>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/subvolume/quota.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

constexpr std::uint64_t kUnit = 512;  // bytes, of the limits and figures

int Ask(const UniqueFd& file, unsigned command, std::uint32_t project, void* data) {
  return sys::QuotaCtlFd(file.get(), QCMD(command, PRJQUOTA), project, data);
}

bool SaysNone(int error) {
  return error == ENOSYS || error == ESRCH || error == ENOENT || error == EOPNOTSUPP || error == EINVAL ||
         error == ENOTTY || error == EPERM;
}

absl::Status NotEnforced(const UniqueFd& file, const std::string& path) {
  struct statfs filesystem = {};
  if (::fstatfs(file.get(), &filesystem) != 0) return ErrnoStatus(errno, "look at the filesystem of", path);
  constexpr const char* kElse = "; or set quota=advisory, which enforces no size";
  if (filesystem.f_type == XFS_SUPER_MAGIC) {
    return FailedPrecondition(
        "the xfs of {} does not enforce project quotas: mount it with -o prjquota from its first mount on (a root "
        "disk: rootflags=prjquota for the kernel), because a remount changes nothing{}",
        Quote(path), kElse);
  }
  if (filesystem.f_type == EXT4_SUPER_MAGIC) {
    return FailedPrecondition(
        "the ext4 of {} does not enforce project quotas: unmount it, run tune2fs -O quota,project -Q prjquota on its "
        "device, load the module quota_v2, and mount it with -o prjquota (a root disk: rootflags=prjquota for the "
        "kernel), because a remount changes nothing{}",
        Quote(path), kElse);
  }
  return FailedPrecondition("{} lies on a filesystem without project quotas: move the pool to xfs or ext4{}",
                            Quote(path), kElse);
}

}  // namespace

std::uint32_t ProjectOf(std::string_view name) {
  const std::uint64_t digits = GroupNumberOf(name);
  return digits == 0 ? 0 : kFirstProject | static_cast<std::uint32_t>(digits & (kFirstProject - 1));
}

// That a limit can be set says nothing: ext4 takes limits that it does not enforce.
absl::Status CheckEnforcesProjects(const UniqueFd& file, const std::string& path) {
  fs_quota_statv state = {};
  state.qs_version = FS_QSTATV_VERSION1;
  if (Ask(file, Q_XGETQSTATV, 0, &state) != 0) {
    const bool forbidden = errno == EPERM;  // by a seccomp profile
    if (!forbidden && SaysNone(errno)) return NotEnforced(file, path);
    return ErrnoStatus(errno, "ask for the quotas (quotactl_fd) of", path);
  }
  return (state.qs_flags & FS_QUOTA_PDQ_ENFD) != 0 ? absl::OkStatus() : NotEnforced(file, path);
}

absl::StatusOr<std::optional<ProjectUsage>> UsageOfProject(const UniqueFd& file, std::uint32_t project,
                                                           const std::string& path) {
  fs_disk_quota quota = {};
  if (Ask(file, Q_XGETQUOTA, project, &quota) != 0) {
    if (SaysNone(errno)) return std::optional<ProjectUsage>();
    return ErrnoStatus(errno, "ask for the usage of", path);
  }
  return std::optional<ProjectUsage>({.most_bytes = quota.d_blk_hardlimit * kUnit,
                                      .most_inodes = quota.d_ino_hardlimit,
                                      .bytes = quota.d_bcount * kUnit,
                                      .inodes = quota.d_icount});
}

// No soft limit: df would show that, and the end of its grace is an error for the tenant.
absl::Status LimitProject(const UniqueFd& file, std::uint32_t project, std::uint64_t bytes, std::uint64_t inodes,
                          const std::string& path) {
  fs_disk_quota quota = {};
  quota.d_version = FS_DQUOT_VERSION;
  quota.d_flags = FS_PROJ_QUOTA;
  quota.d_fieldmask = FS_DQ_BSOFT | FS_DQ_BHARD | FS_DQ_ISOFT | FS_DQ_IHARD;
  quota.d_id = project;
  quota.d_blk_hardlimit = bytes / kUnit;
  quota.d_ino_hardlimit = inodes;
  if (Ask(file, Q_XSETQLIM, project, &quota) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "set the limit of", path);
}

absl::StatusOr<std::optional<ProjectMark>> MarkOf(const UniqueFd& file, const std::string& path) {
  fsxattr attributes = {};
  if (::ioctl(file.get(), FS_IOC_FSGETXATTR, &attributes) != 0) {
    if (SaysNone(errno)) return std::optional<ProjectMark>();
    return ErrnoStatus(errno, "read the project of", path);
  }
  return std::optional<ProjectMark>(
      {.project = attributes.fsx_projid, .inherits = (attributes.fsx_xflags & FS_XFLAG_PROJINHERIT) != 0});
}

absl::Status CheckGivesNoProject(const UniqueFd& directory, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<ProjectMark> mark, MarkOf(directory, path));
  if (!mark || !mark->inherits) return absl::OkStatus();
  return FailedPrecondition(
      "{} gives the project {} of a quota to what is made in it, so volumes there could not have projects of their "
      "own: "
      "choose another directory, or take the project away (chattr -P -p 0)",
      Quote(path), mark->project);
}

absl::Status SetMark(const UniqueFd& file, const ProjectMark& mark, const std::string& path) {
  fsxattr attributes = {};
  if (::ioctl(file.get(), FS_IOC_FSGETXATTR, &attributes) != 0) return ErrnoStatus(errno, "read the project of", path);
  attributes.fsx_projid = mark.project;
  attributes.fsx_xflags &= ~static_cast<std::uint32_t>(FS_XFLAG_PROJINHERIT);
  if (mark.inherits) attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
  if (::ioctl(file.get(), FS_IOC_FSSETXATTR, &attributes) != 0) return ErrnoStatus(errno, "set the project of", path);
  MOORING_ASSIGN_OR_RETURN(const std::optional<ProjectMark> now, MarkOf(file, path));
  if (now == mark) return absl::OkStatus();
  return FailedPrecondition("the filesystem of {} took its project {}, and does not keep it", Quote(path),
                            mark.project);
}

}  // namespace mooring
