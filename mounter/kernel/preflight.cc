#include <fcntl.h>
#include <linux/capability.h>

#include <cerrno>

#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/loop/loop_device.h"
#include "mounter/sys/syscalls.h"
#include "mounter/table/mount_table.h"

namespace mooring {
namespace {

std::string TypeOf(const ListedMount& mount) {
  return mount.master != 0 ? "is a slave, which only receives mounts" : "is private";
}

absl::Status CheckSeenOutside(const std::string& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok() && errno == ENOENT) return absl::OkStatus();
  if (!fd.ok()) return ErrnoStatus(errno, "inspect the mount of", directory);
  MOORING_ASSIGN_OR_RETURN(const ListedMount mount, LookUpMountOf(fd, directory));
  if (mount.shared()) return absl::OkStatus();
  return FailedPrecondition(
      "other mount namespaces would not see the mounts below {}: its mount at {} {}. Bind it into the container with "
      "propagation rshared (Kubernetes: Bidirectional), from a shared mount of the host (mount --make-rshared)",
      Quote(directory), Quote(mount.target), TypeOf(mount));
}

// If all loop devices are in use, the host is still set up correctly: a device becomes free with the next unstage.
absl::Status CheckLoopsExist() {
  const absl::Status loops = CheckLoopDevices();
  if (!absl::IsResourceExhausted(loops)) return loops;
  log::Once(log::Level::kWarning, "no further volume of an image pool can be staged now", {{"cause", Message(loops)}});
  return absl::OkStatus();
}

absl::Status CheckMayMount() {
  if (sys::HasCapability(CAP_SYS_ADMIN)) return absl::OkStatus();
  return FailedPrecondition(
      "nothing can be mounted without CAP_SYS_ADMIN: start the container with --privileged or --cap-add SYS_ADMIN, or "
      "the plugin as root");
}

}  // namespace

absl::Status KernelMounter::CheckNeeds(const Needs& needs) {
  MOORING_RETURN_IF_ERROR(CheckMayMount());
  if (needs.loop_devices) MOORING_RETURN_IF_ERROR(CheckLoopsExist());
  for (const std::string& directory : needs.seen_outside) MOORING_RETURN_IF_ERROR(CheckSeenOutside(directory));
  return absl::OkStatus();
}

}  // namespace mooring
