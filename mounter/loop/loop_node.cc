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
#include <optional>
#include <string>
#include <vector>

#include "base/file/directory.h"
#include "base/host.h"
#include "base/status.h"
#include "base/text/whole_number.h"
#include "mounter/loop/loop_device.h"
#include "mounter/loop/raw_device.h"

namespace mooring {
namespace {

constexpr int kMostTaken = 64;  // names, before the search for a free device is given up
constexpr char kControl[] = "/dev/loop-control";
const dev_t kControlNumber = makedev(MISC_MAJOR, 237);  // Documentation/admin-guide/devices.txt

dev_t NumberOf(unsigned number) { return makedev(LOOP_MAJOR, number); }  // /dev/loopN is minor N

std::optional<unsigned> LoopNumber(const std::string& name) {  // of "loop3"
  return name.starts_with("loop") ? ParseWhole<unsigned>(name.substr(4)) : std::nullopt;
}

// Another file may have the name: a directory, a pipe, the node of another device, whose opening may have effects.
bool IsNode(const std::string& path, mode_t type, dev_t device) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IFMT) == type && status.st_rdev == device;
}

bool IsLoopNode(unsigned number) { return IsNode(LoopPath(number), S_IFBLK, NumberOf(number)); }

// Whether something that is not the device has its name. It stays, because it belongs to somebody else.
bool IsTaken(const std::string& path, mode_t type, dev_t device) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && !IsNode(path, type, device);
}

bool IsTaken(unsigned number) { return IsTaken(LoopPath(number), S_IFBLK, NumberOf(number)); }

// Opens a device whose name is taken, through a node that is removed at once.
UniqueFd OpenByOtherName(mode_t type, dev_t device, int flags) {
  const std::string path = fmt::format("/dev/.mooring-{}", RandomHex(8));
  if (::mknod(path.c_str(), type | 0600, device) != 0) return UniqueFd();
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC));
  const int error = errno;
  ::unlink(path.c_str());
  errno = error;
  return fd;
}

// A container whose /dev is a copy lacks the nodes of devices made later. This makes the node of an existing device.
bool MakeNode(const std::string& path, unsigned number) {
  if (::access(fmt::format("/sys/block/loop{}", number).c_str(), F_OK) != 0) return false;
  return ::mknod(path.c_str(), S_IFBLK | 0660, NumberOf(number)) == 0 || errno == EEXIST;
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

// A container may have been given some devices by name. While these are in use, the kernel's free device is another
// one.
bool HasAnyDevice() {
  const auto names = EntriesOf("/dev");
  if (!names.ok()) return false;
  return std::any_of(names->begin(), names->end(), [](const std::string& name) {
    const std::optional<unsigned> number = LoopNumber(name);
    if (!number || !IsLoopNode(*number)) return false;
    return UniqueFd(::open(("/dev/" + name).c_str(), O_RDONLY | O_CLOEXEC)).ok() || errno == ENXIO;
  });
}

// A free device whose name is not taken, and whose number is none for raw volumes. The kernel always chooses the first
// free one.
absl::StatusOr<unsigned> FreeNumberWithNode(const UniqueFd& control) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf("/sys/block"));
  for (const std::string& name : names) {
    const std::optional<unsigned> number = LoopNumber(name);
    if (!number || IsTaken(*number) || IsInRawRange(*number)) continue;
    const bool free = ::access(fmt::format("/sys/block/{}/loop", name).c_str(), F_OK) != 0;
    if (free) return *number;
  }
  for (int attempt = 0; attempt < kMostTaken; ++attempt) {
    const int added = ::ioctl(control.get(), LOOP_CTL_ADD, -1L);
    if (added < 0) return ErrnoStatus(errno, "add a loop device with", kControl);
    if (!IsTaken(static_cast<unsigned>(added))) return static_cast<unsigned>(added);
  }
  return FailedPrecondition("other files have the names of all free loop devices in /dev: remove them");
}

absl::StatusOr<UniqueFd> OpenControl() {
  const bool taken = IsTaken(kControl, S_IFCHR, kControlNumber);
  UniqueFd control =
      taken ? OpenByOtherName(S_IFCHR, kControlNumber, O_RDWR) : UniqueFd(::open(kControl, O_RDWR | O_CLOEXEC));
  if (control.ok()) return control;
  if (!taken) return NotAvailable(errno, kControl);
  return FailedPrecondition("{} is another file, and not the device c 10:237: {}; remove it, and make the device",
                            kControl, Message(ErrnoStatus(errno, "make a node of the device")));
}

}  // namespace

std::string LoopPath(unsigned number) { return fmt::format("/dev/loop{}", number); }

UniqueFd OpenLoopNode(unsigned number, int flags) {
  const std::string path = LoopPath(number);
  if (IsTaken(number)) return OpenByOtherName(S_IFBLK, NumberOf(number), flags);
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
  const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
  if (number < 0) return ErrnoStatus(errno, "ask for a free loop device of", kControl);
  // A task may still have the node of a number of a raw volume.
  const auto free = static_cast<unsigned>(number);
  return IsTaken(free) || IsInRawRange(free) ? FreeNumberWithNode(control) : free;
}

bool LoopExists(unsigned number) { return ::access(fmt::format("/sys/block/loop{}", number).c_str(), F_OK) == 0; }

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
