#include <fcntl.h>
#include <fmt/format.h>
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

std::string KindOf(const MountInfo& mount) {
  return mount.master != 0 ? "only receives what others mount (slave)" : "is private";
}

absl::Status CheckSeenOutside(const std::string& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok() && errno == ENOENT) return absl::OkStatus();
  if (!fd.ok()) return ErrnoStatus(errno, "look at the mount of", directory);
  MOORING_ASSIGN_OR_RETURN(const MountInfo mount, LookUpMountOf(fd, directory));
  if (mount.shared()) return absl::OkStatus();
  return FailedPrecondition(fmt::format(
      "nobody else would see what is mounted below {}: the mount at {} that it lies on {}: bind it into the container "
      "with propagation rshared (Kubernetes: Bidirectional) from a shared mount of the host (mount --make-rshared)",
      Quote(directory), Quote(mount.target), KindOf(mount)));
}

// Those in use come free again: nothing is missing that somebody would have to mend for the volumes that there are.
absl::Status CheckLoopsAreThere() {
  const absl::Status loops = CheckLoopDevices();
  if (!absl::IsResourceExhausted(loops)) return loops;
  log::Once(log::Level::kWarning, "no more volumes of the image pools can be staged", {{"cause", Message(loops)}});
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
  if (needs.loop_devices) MOORING_RETURN_IF_ERROR(CheckLoopsAreThere());
  for (const std::string& directory : needs.seen_outside) MOORING_RETURN_IF_ERROR(CheckSeenOutside(directory));
  return absl::OkStatus();
}

}  // namespace mooring
