#include "mounter/loop/raw_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "base/file/directory.h"
#include "base/status.h"
#include "base/text/whole_number.h"
#include "mounter/loop/loop_config.h"
#include "mounter/loop/loop_mounted.h"
#include "mounter/loop/loop_node.h"

namespace mooring {
namespace {

// The hold shows a single sector. So programs of the host that look for filesystems find nothing on it.
constexpr std::uint64_t kHoldBytes = 512;

// While it is held, no thread removes a device that another one has added and not yet bound.
std::mutex& AddingMutex() {
  static std::mutex mutex;
  return mutex;
}

unsigned RandomStart() {
  unsigned random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) random = static_cast<unsigned>(::getpid()) * 2654435761U;
  return kFirstRawNumber + (random % (kEndOfRawNumbers - kFirstRawNumber)) / 2 * 2;
}

// Another file may have its name in /dev.
bool IsUnused(unsigned number) {
  struct stat node = {};
  return !LoopExists(number) && ::lstat(LoopPath(number).c_str(), &node) != 0;
}

// A device without a file, which a task may have made by opening its old node. The kernel would give it to the next
// program that asks for a free device.
void RemoveUnusedDevices() {
  const absl::StatusOr<std::vector<std::string>> names = EntriesOrNone("/sys/block");
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const auto number = name.starts_with("loop") ? ParseWhole<unsigned>(name.substr(4)) : std::nullopt;
    if (!number || !IsInRawRange(*number)) continue;
    const absl::StatusOr<bool> bound = IsInSysfs("/sys/block/" + name + "/loop");
    if (bound.ok() && !*bound) RemoveRawDevice(*number);
  }
}

struct OpenHold {
  UniqueFd fd;  // not open: there is no hold
  loop_info64 status = {};
};

absl::StatusOr<OpenHold> OpenHoldOf(unsigned raw_number) {
  const unsigned number = HoldOf(raw_number);
  OpenHold hold;
  MOORING_ASSIGN_OR_RETURN(const bool bound, IsInSysfs(fmt::format("/sys/block/loop{}/loop", number)));
  if (!bound) return hold;
  UniqueFd fd = OpenLoopNode(number, O_RDONLY);
  if (!fd.ok() && (errno == ENXIO || errno == ENOENT)) return hold;  // it is being detached
  if (!fd.ok()) return ErrnoStatus(errno, "open the loop device", LoopPath(number));
  if (::ioctl(fd.get(), LOOP_GET_STATUS64, &hold.status) != 0) {
    if (errno == ENXIO) return hold;
    return ErrnoStatus(errno, "ask for the status of", LoopPath(number));
  }
  if (hold.status.lo_rdevice == makedev(LOOP_MAJOR, raw_number)) hold.fd = std::move(fd);
  return hold;
}

// The note is the read-ahead of the hold, in sectors, which nothing else uses: whole pages of up to 64 KiB. An earlier
// version knows kUntold, and takes any other value for kNone.
constexpr long kNoneSectors = 256, kUntoldSectors = 37 * 128, kToldSectors = 38 * 128;

FailureNote NoteOf(const OpenHold& hold) {
  long sectors = 0;
  if (::ioctl(hold.fd.get(), BLKRAGET, &sectors) != 0) return FailureNote::kNone;
  if (sectors == kUntoldSectors) return FailureNote::kUntold;
  return sectors == kToldSectors ? FailureNote::kTold : FailureNote::kNone;
}

void Note(const OpenHold& hold, FailureNote note) {
  if (NoteOf(hold) == note) return;
  const long sectors = note == FailureNote::kNone     ? kNoneSectors
                       : note == FailureNote::kUntold ? kUntoldSectors
                                                      : kToldSectors;
  ::ioctl(hold.fd.get(), BLKRASET, static_cast<unsigned long>(sectors));
}

absl::Status Relabel(OpenHold& hold, const std::string& label, unsigned number) {
  if (LabelIn(hold.status) == label && (hold.status.lo_flags & LO_FLAGS_AUTOCLEAR) == 0) return absl::OkStatus();
  hold.status.lo_flags &= ~static_cast<std::uint32_t>(LO_FLAGS_AUTOCLEAR);
  SetLabel(hold.status, label);
  if (::ioctl(hold.fd.get(), LOOP_SET_STATUS64, &hold.status) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "set the label of", LoopPath(number));
}

}  // namespace

bool IsInRawRange(unsigned number) { return number >= kFirstRawNumber && number < kEndOfRawNumbers; }

bool IsRawNumber(unsigned number) { return IsInRawRange(number) && number % 2 == 0; }

unsigned HoldOf(unsigned raw_number) { return raw_number + 1; }

void RemoveUnusedRawDevices() {
  const std::lock_guard<std::mutex> lock(AddingMutex());
  RemoveUnusedDevices();
}

absl::StatusOr<unsigned> AddRawDevice() {
  static unsigned next = RandomStart();
  const std::lock_guard<std::mutex> lock(AddingMutex());
  RemoveUnusedDevices();
  for (unsigned attempt = 0; attempt < kEndOfRawNumbers - kFirstRawNumber; attempt += 2) {
    const unsigned number = next;
    next = next + 2 < kEndOfRawNumbers ? next + 2 : kFirstRawNumber;
    if (!IsUnused(number) || !IsUnused(HoldOf(number))) continue;
    const absl::Status added = AddLoop(number);
    if (absl::IsAlreadyExists(added)) continue;
    if (!added.ok()) return added;
    return number;
  }
  return ResourceExhausted("all {} loop devices for raw volumes are in use", (kEndOfRawNumbers - kFirstRawNumber) / 2);
}

// A container's own copy of /dev keeps the node, while the kernel removes it from a devtmpfs.
void RemoveRawDevice(unsigned number) {
  if (!RemoveLoop(number)) return;
  struct stat node = {};
  const std::string path = LoopPath(number);
  if (::lstat(path.c_str(), &node) != 0 || !S_ISBLK(node.st_mode)) return;
  if (node.st_rdev == makedev(LOOP_MAJOR, number) && !LoopExists(number)) ::unlink(path.c_str());
}

absl::StatusOr<std::optional<std::string>> LabelOfHold(unsigned raw_number) {
  MOORING_ASSIGN_OR_RETURN(const OpenHold hold, OpenHoldOf(raw_number));
  if (!hold.fd.ok()) return std::optional<std::string>();
  return std::optional<std::string>(LabelIn(hold.status));
}

absl::Status PutHold(int fd, unsigned raw_number, const std::string& label) {
  const unsigned number = HoldOf(raw_number);
  constexpr int kAttempts = 16;  // each lost to another process that removes or takes the device, and waits longer
  const std::lock_guard<std::mutex> lock(AddingMutex());
  // FlushHold needs a hold that was bound to a writable file. A reader's device cannot be opened so.
  const UniqueFd writable(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDWR | O_CLOEXEC));
  int error = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(attempt));
    MOORING_ASSIGN_OR_RETURN(OpenHold hold, OpenHoldOf(raw_number));
    if (hold.fd.ok()) return Relabel(hold, label, number);
    const absl::Status added = AddLoop(number);
    if (!added.ok() && !absl::IsAlreadyExists(added)) return added;
    const UniqueFd loop = OpenLoopNode(number, writable.ok() ? O_RDWR : O_RDONLY);
    if (!loop.ok() && errno != ENXIO && errno != ENOENT) {
      return ErrnoStatus(errno, "open the loop device", LoopPath(number));
    }
    if (!loop.ok()) continue;
    const LoopSpec spec = {.label = label, .read_only = !writable.ok(), .size_limit = kHoldBytes};
    error = ConfigureLoop(loop.get(), writable.ok() ? writable.get() : fd, spec);
    const int read_only = 1;
    if (error == 0 && ::ioctl(loop.get(), BLKROSET, &read_only) != 0) {
      return ErrnoStatus(errno, "make read-only", LoopPath(number));
    }
    if (error == 0) return absl::OkStatus();
    if (error != EBUSY && error != ENXIO) return ErrnoStatus(error, "hold", LoopPath(raw_number));
  }
  return FailedPrecondition("{} cannot be held: another program has {}: detach that (losetup -d {}) and call again",
                            LoopPath(raw_number), LoopPath(number), LoopPath(number));
}

absl::StatusOr<FlushedHold> FlushHold(unsigned raw_number, bool has_failed) {
  FlushedHold flushed;
  MOORING_ASSIGN_OR_RETURN(const OpenHold hold, OpenHoldOf(raw_number));
  if (!hold.fd.ok()) return flushed;
  if (has_failed) Note(hold, FailureNote::kUntold);
  flushed.now = ::fsync(hold.fd.get()) == 0 ? 0 : errno;
  if (flushed.now != 0) Note(hold, FailureNote::kUntold);
  flushed.noted = NoteOf(hold);
  return flushed;
}

void NoteFailure(unsigned raw_number, FailureNote note) {
  const absl::StatusOr<OpenHold> hold = OpenHoldOf(raw_number);
  if (hold.ok() && hold->fd.ok()) Note(*hold, note);
}

absl::Status RemoveHold(unsigned raw_number) {
  MOORING_ASSIGN_OR_RETURN(OpenHold hold, OpenHoldOf(raw_number));
  if (hold.fd.ok() && ::ioctl(hold.fd.get(), LOOP_CLR_FD) != 0 && errno != ENXIO) {
    return ErrnoStatus(errno, "detach", LoopPath(HoldOf(raw_number)));
  }
  hold.fd.reset();  // the last user
  RemoveRawDevice(HoldOf(raw_number));
  return absl::OkStatus();
}

}  // namespace mooring
