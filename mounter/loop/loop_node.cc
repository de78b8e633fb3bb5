#include "mounter/loop/loop_node.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/file/directory.h"
#include "base/status.h"
#include "mounter/loop/loop_device.h"
#include "mounter/loop/raw_device.h"

namespace mooring {
namespace {

constexpr char kControl[] = "/dev/loop-control";

// A container whose /dev is a copy lacks the nodes of devices made later. This makes the node of an existing device.
// /dev/loopN is minor N.
bool MakeNode(const std::string& path, unsigned number) {
  if (::access(fmt::format("/sys/block/loop{}", number).c_str(), F_OK) != 0) return false;
  return ::mknod(path.c_str(), S_IFBLK | 0660, makedev(LOOP_MAJOR, number)) == 0 || errno == EEXIST;
}

// The errors of an open of a loop device or of loop-control in a container that was not given them. Other errors, such
// as no file or memory left, say nothing about that.
bool MeansNotGiven(int error) {
  return error == ENOENT || error == ENODEV || error == ENXIO || error == EPERM || error == EACCES;
}

absl::Status NotAvailable(int error, const std::string& path) {
  if (!MeansNotGiven(error)) return ErrnoStatus(error, "open the loop device", path);
  const bool forbidden = error == EPERM || error == EACCES;
  const std::string message = Message(ErrnoStatus(error, "open", path));
  if (forbidden) {
    return FailedPrecondition(
        "loop devices are not to be had: {}: the container may not use them: make it privileged, or allow it the "
        "devices /dev/loop-control (c 10:237) and /dev/loop* (b 7:*)",
        message);
  }
  return FailedPrecondition(
      "loop devices are not to be had: {}: bind the host's /dev into the container, or load the kernel's module loop "
      "on the host (modprobe loop)",
      message);
}

absl::StatusOr<UniqueFd> OpenControl() {
  UniqueFd control(::open(kControl, O_RDWR | O_CLOEXEC));
  if (!control.ok()) return NotAvailable(errno, kControl);
  return control;
}

// A container may have been given some devices by name. While these are in use, the kernel's free device is another
// one.
bool HasAnyDevice() {
  const auto names = EntriesOf("/dev");
  if (!names.ok()) return false;
  return std::any_of(names->begin(), names->end(), [](const std::string& name) {
    const bool is_loop =
        name.size() > 4 && name.starts_with("loop") && name.find_first_not_of("0123456789", 4) == name.npos;
    return is_loop && (UniqueFd(::open(("/dev/" + name).c_str(), O_RDONLY | O_CLOEXEC)).ok() || errno == ENXIO);
  });
}

}  // namespace

std::string LoopPath(unsigned number) { return fmt::format("/dev/loop{}", number); }

UniqueFd OpenLoopNode(unsigned number, int flags) {
  const std::string path = LoopPath(number);
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC));
  if (fd.ok() || errno != ENOENT) return fd;
  if (MakeNode(path, number)) {
    fd.reset(::open(path.c_str(), flags | O_CLOEXEC));
  } else {
    errno = ENOENT;
  }
  return fd;
}

absl::StatusOr<unsigned> FreeLoopNumber() {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd control, OpenControl());
  int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
  // A task may still have the node of this number. -1: the kernel adds the device with the lowest number.
  if (number >= 0 && IsInRawRange(static_cast<unsigned>(number))) number = ::ioctl(control.get(), LOOP_CTL_ADD, -1L);
  if (number < 0) return ErrnoStatus(errno, "ask for a free loop device of", kControl);
  return static_cast<unsigned>(number);
}

absl::Status AddLoop(unsigned number) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd control, OpenControl());
  if (::ioctl(control.get(), LOOP_CTL_ADD, static_cast<unsigned long>(number)) >= 0) return absl::OkStatus();
  if (errno == EEXIST) return AlreadyExists("{} exists", LoopPath(number));
  return ErrnoStatus(errno, "add the loop device", LoopPath(number));
}

bool RemoveLoop(unsigned number) {
  const absl::StatusOr<UniqueFd> control = OpenControl();
  return control.ok() && ::ioctl(control->get(), LOOP_CTL_REMOVE, static_cast<unsigned long>(number)) >= 0;
}

absl::Status CheckLoopDevices() {
  MOORING_ASSIGN_OR_RETURN(const unsigned number, FreeLoopNumber());
  const std::string path = LoopPath(number);
  const UniqueFd fd = OpenLoopNode(number, O_RDONLY);
  if (fd.ok() || errno == ENXIO) return absl::OkStatus();
  const int error = errno;
  if (!MeansNotGiven(error) || !HasAnyDevice()) return NotAvailable(error, path);
  return ResourceExhausted(
      "all loop devices that this container was given are in use: {}: give it more, or the host's /dev, or CAP_MKNOD "
      "and the devices /dev/loop* (b 7:*)",
      Message(ErrnoStatus(error, "open", path)));
}

}  // namespace mooring
