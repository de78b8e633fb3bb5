// Mounts that stand get other flags.
#include <fcntl.h>
#include <fmt/format.h>

#include "base/quote.h"
#include "base/status.h"
#include "mounter/classic_mount.h"
#include "mounter/detached_mount.h"
#include "mounter/kernel_mounter.h"
#include "mounter/target.h"

namespace mooring {
namespace {

absl::Status SetFlags(MountApi api, const UniqueFd& mount, const std::string& path, const MountFlags& flags) {
  absl::Status status;
  switch (api) {
    case MountApi::kDetached:
      status = SetMountAttributes(mount, flags);
      break;
    case MountApi::kClassic:
      status = RemountWith(mount, flags);
      break;
  }
  return status.ok() ? status : Annotate(status, fmt::format("change the mount at {}", Quote(path)));
}

}  // namespace

absl::Status KernelMounter::Change(const ChangeRequest& request) {
  if (!request.options.empty()) return Unimplemented("options of a filesystem in use");
  MOORING_ASSIGN_OR_RETURN(const Target target, Target::ResolveForMount(request.target, roots_));
  MOORING_RETURN_IF_ERROR(targets_.CheckTarget(target));
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  if (!status.mount_root) return FailedPrecondition(fmt::format("nothing is mounted at {}", Quote(request.target)));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd mount, OpenNoSymlinks(request.target, O_PATH));
  MOORING_RETURN_IF_ERROR(sources_.CheckBindSource(mount, request.target));
  if (!request.flags) return absl::OkStatus();
  return WithMountApi([&](MountApi api) { return SetFlags(api, mount, request.target, *request.flags); });
}

}  // namespace mooring
