#include "mounter/loop/loop_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"
#include "mounter/loop/attachment_lock.h"
#include "mounter/loop/loop_census.h"
#include "mounter/loop/loop_config.h"
#include "mounter/loop/loop_mounted.h"
#include "mounter/loop/loop_node.h"
#include "mounter/loop/raw_device.h"
#include "mounter/loop/settle.h"

namespace mooring {
namespace {

// NOT_FOUND: the device is being freed, or gone.
absl::StatusOr<UniqueFd> OpenDevice(unsigned number, int flags) {
  const std::string path = LoopPath(number);
  UniqueFd fd = OpenLoopNode(number, flags);
  if (!fd.ok() && errno == ENXIO) return NotFound("{} is being torn down", path);
  if (!fd.ok()) return ErrnoStatus(errno, "open the loop device", path);
  return fd;
}

// An error is not taken for "free": a second device over a file would destroy its filesystem.
absl::StatusOr<bool> IsBound(unsigned number) { return IsInSysfs(fmt::format("/sys/block/loop{}/loop", number)); }

// A task can write the label of its raw device. Only the hold tells the volume.
absl::StatusOr<std::string> LabelOf(const loop_info64& status, unsigned number) {
  if (!IsRawNumber(number)) return LabelIn(status);
  MOORING_ASSIGN_OR_RETURN(const std::optional<std::string> held, LabelOfHold(number));
  return held.value_or("");
}

bool SysfsSays(unsigned number, const char* file, char answer) {
  std::ifstream stream(fmt::format("/sys/block/loop{}/{}", number, file));
  return stream.get() == answer;
}

// A task can exchange the file of its read-only device for one whose server hangs, or answers nobody else
// (LOOP_CHANGE_FD). So the file of a held device is not asked. Empty: it is no such device.
absl::StatusOr<std::optional<LoopInfo>> HeldReader(unsigned number) {
  std::optional<LoopInfo> reader;
  if (!IsRawNumber(number) || !SysfsSays(number, "ro", '1')) return reader;
  MOORING_ASSIGN_OR_RETURN(const std::optional<std::string> label, LabelOfHold(number));
  if (!label) return reader;
  reader.emplace();
  reader->device = LoopPath(number);
  reader->device_number = makedev(LOOP_MAJOR, number);
  reader->backing_rdev = reader->device_number;  // no other device
  reader->label = *label;
  reader->read_only = reader->raw = true;
  reader->auto_clear = SysfsSays(number, "loop/autoclear", '1');
  return reader;
}

// Everything but LoopInfo::mounted.
absl::StatusOr<LoopInfo> FromStatus(const loop_info64& status, unsigned number) {
  LoopInfo info;
  info.device = LoopPath(number);
  info.device_number = makedev(LOOP_MAJOR, number);
  info.backing_device = status.lo_device;
  info.backing_inode = status.lo_inode;
  info.backing_rdev = status.lo_rdevice;
  MOORING_ASSIGN_OR_RETURN(info.label, LabelOf(status, number));
  info.offset = status.lo_offset;
  info.size_limit = status.lo_sizelimit;
  info.read_only = (status.lo_flags & LO_FLAGS_READ_ONLY) != 0;
  info.auto_clear = (status.lo_flags & LO_FLAGS_AUTOCLEAR) != 0;
  info.raw = IsRawNumber(number);
  return info;
}

// Returns 0 or the errno.
int AskStatus(int fd, loop_info64& status) { return ::ioctl(fd, LOOP_GET_STATUS64, &status) == 0 ? 0 : errno; }

absl::StatusOr<std::optional<LoopInfo>> FromAnswer(int error, const loop_info64& status, unsigned number) {
  if (error == 0) {
    MOORING_ASSIGN_OR_RETURN(LoopInfo info, FromStatus(status, number));
    return std::optional<LoopInfo>(std::move(info));
  }
  if (error == ENXIO) return std::optional<LoopInfo>();
  return ErrnoStatus(error, "ask for the status of", LoopPath(number));
}

// Empty: the device is bound to nothing.
absl::StatusOr<std::optional<LoopInfo>> Status(int fd, unsigned number) {
  loop_info64 status = {};
  return FromAnswer(AskStatus(fd, status), status, number);
}

// The numbers of the loop devices in use. Sysfs shows a backing file for these, so nothing is opened.
absl::StatusOr<std::vector<unsigned>> UsedNumbers() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf("/sys/block"));
  std::vector<unsigned> numbers;
  for (const std::string& name : names) {
    if (!name.starts_with("loop")) continue;
    const auto number = ParseWhole<unsigned>(name.substr(4));
    if (!number) continue;
    MOORING_ASSIGN_OR_RETURN(const bool bound, IsBound(*number));
    if (bound) numbers.push_back(*number);
  }
  return numbers;
}

// Opens a bound device for reading. Not open: it is bound to nothing any more.
absl::StatusOr<UniqueFd> OpenBound(unsigned number) {
  absl::StatusOr<UniqueFd> fd = OpenDevice(number, O_RDONLY);
  if (absl::IsNotFound(fd.status())) return UniqueFd();
  if (fd.ok()) return fd;
  MOORING_ASSIGN_OR_RETURN(const bool bound, IsBound(number));
  if (!bound) return UniqueFd();
  return fd;
}

// Sysfs answers without asking the file's filesystem. A device without a file there is about to be free.
absl::StatusOr<std::optional<LoopInfo>> HungLoop(unsigned number) {
  MOORING_ASSIGN_OR_RETURN(std::optional<LoopInfo> reader, HeldReader(number));
  if (reader) return reader;
  LoopInfo info;
  info.device = LoopPath(number);
  info.device_number = makedev(LOOP_MAJOR, number);
  std::ifstream file(fmt::format("/sys/block/loop{}/loop/backing_file", number));
  if (!std::getline(file, info.label)) {
    MOORING_ASSIGN_OR_RETURN(const bool bound, IsBound(number));
    if (!bound) return std::optional<LoopInfo>();
  }
  constexpr std::string_view kDeleted = " (deleted)";
  if (info.label.ends_with(kDeleted)) info.label.resize(info.label.size() - kDeleted.size());
  return std::optional<LoopInfo>(std::move(info));
}

// The errors of LOOP_GET_STATUS64 where the server of the backing file is dead, or its filesystem was shut down.
bool MeansDeadServer(int error) { return MeansBroken(error) || error == ECONNABORTED; }

// A device whose file's server is dead counts as one that hangs, so that the others are still found. Any other error
// fails the list: such a device may be over the caller's file.
absl::StatusOr<std::optional<LoopInfo>> ByNumberForList(unsigned number) {
  if (IsInRawRange(number) && !IsRawNumber(number)) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<std::string> is_hold, LabelOfHold(number - 1));
    if (is_hold) return std::optional<LoopInfo>();
  }
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenBound(number));
  if (!fd.ok()) return std::optional<LoopInfo>();
  loop_info64 status = {};
  const int error = AskStatus(fd.get(), status);
  if (error != 0 && error != ENXIO) {
    MOORING_ASSIGN_OR_RETURN(std::optional<LoopInfo> reader, HeldReader(number));
    if (reader) return reader;
  }
  return MeansDeadServer(error) ? HungLoop(number) : FromAnswer(error, status, number);
}

absl::Status CheckReusable(const LoopInfo& loop, const LoopSpec& spec, const LockedImage& image) {
  // An earlier version attached raw volumes with the kernel's numbers.
  if (spec.raw && !loop.raw && !loop.mounted && loop.label == spec.label) return absl::OkStatus();
  const bool foreign = spec.raw && !loop.raw && !loop.mounted;
  if (loop.raw != spec.raw && !foreign) {
    return FailedPrecondition("{} is in use as a {} through {}: end that use first", Quote(image.path),
                              loop.raw ? "block device" : "filesystem", loop.device);
  }
  if (loop.raw && loop.read_only == spec.read_only) return absl::OkStatus();  // HoldLoopDevice undoes the rest
  if (foreign || loop.offset != 0 || loop.size_limit != 0 || loop.read_only != spec.read_only) {
    return FailedPrecondition(
        "{} is bound to {} by another program (offset {}, size limit {}, {}): detach it first with losetup -d {}",
        Quote(image.path), loop.device, loop.offset, loop.size_limit, loop.read_only ? "read-only" : "read-write",
        loop.device);
  }
  return absl::OkStatus();
}

// Opens the existing device and asks it again, because it may have been cleared between the list and the open.
absl::StatusOr<std::optional<OpenLoop>> OpenExisting(const LoopSpec& spec, const LockedImage& image) {
  const struct stat& file = image.status;
  if (spec.raw && S_ISBLK(file.st_mode)) return std::optional<OpenLoop>();
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, ListLoops());
  MOORING_RETURN_IF_ERROR(CheckNoneHangs(loops, image.path));
  for (const LoopInfo& loop : loops) {
    if (!IsOver(loop, file)) continue;
    // Other programs may stack loop devices on a block volume (kubelet does): these are not reused.
    if (S_ISBLK(file.st_mode) && loop.label != spec.label) continue;
    const unsigned number = minor(loop.device_number);
    // Read-only is enough here, and kernels without BLK_DEV_WRITE_MOUNTED allow no more for a mounted device. An error
    // fails the call, because it must not lead to a second device.
    absl::StatusOr<UniqueFd> fd = OpenDevice(number, O_RDONLY);
    if (absl::IsNotFound(fd.status())) continue;
    if (!fd.ok()) return fd.status();
    MOORING_ASSIGN_OR_RETURN(std::optional<LoopInfo> now, Status(fd->get(), number));
    if (!now || !IsOver(*now, file)) continue;
    MOORING_RETURN_IF_ERROR(AskWhetherMounted(*now));
    MOORING_RETURN_IF_ERROR(CheckReusable(*now, spec, image));
    return std::optional<OpenLoop>(OpenLoop{*std::move(fd), *now});
  }
  return std::optional<OpenLoop>();
}

// A device can come back read-only from its last user.
absl::Status CheckWritable(const OpenLoop& loop, const LoopSpec& spec) {
  int read_only = 0;
  if (::ioctl(loop.fd.get(), BLKROGET, &read_only) != 0) return ErrnoStatus(errno, "ask", loop.info.device);
  if (spec.read_only || read_only == 0) return absl::OkStatus();
  read_only = 0;
  if (::ioctl(loop.fd.get(), BLKROSET, &read_only) != 0) return ErrnoStatus(errno, "make writable", loop.info.device);
  return absl::OkStatus();
}

// Opens the device for reading only. It cannot become another file's meanwhile, because it stays open.
absl::StatusOr<OpenLoop> Finish(unsigned number, const OpenLoop& configured, const LoopSpec& spec) {
  MOORING_RETURN_IF_ERROR(CheckWritable(configured, spec));
  OpenLoop loop;
  MOORING_ASSIGN_OR_RETURN(loop.fd, OpenDevice(number, O_RDONLY));
  MOORING_ASSIGN_OR_RETURN(const std::optional<LoopInfo> info, Status(loop.fd.get(), number));
  if (!info) return Internal("{} lost its file at once", LoopPath(number));
  MOORING_RETURN_IF_ERROR(ResetReadAhead(loop.fd.get(), *info));
  loop.info = *info;
  loop.made = true;
  return loop;
}

absl::Status NoRawDevice(const absl::Status& why) {
  return FailedPrecondition(
      "{}: block volumes have loop devices of their own, from {} on: give the container the host's /dev, or CAP_MKNOD "
      "and the devices /dev/loop* (b 7:*)",
      Message(why), LoopPath(kFirstRawNumber));
}

absl::StatusOr<OpenLoop> Attach(const LoopSpec& spec, const LockedImage& image) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd file, Reopen(image, spec.read_only ? O_RDONLY : O_RDWR));
  if (S_ISREG(image.status.st_mode)) {  // other programs stack loop devices on a block device
    const ImageAccess access = spec.read_only ? ImageAccess::kRead : ImageAccess::kWrite;
    MOORING_RETURN_IF_ERROR(LockAttachment(file, image.path, access));
  }
  UniqueFd below;  // its fsync(2) also tells of a write that failed in LOOP_CONFIGURE
  if (S_ISBLK(image.status.st_mode) && spec.read_only) {
    MOORING_ASSIGN_OR_RETURN(below, Reopen(image, O_RDONLY));
    // LOOP_CONFIGURE flushes the device below, and forgets the data whose write fails.
    MOORING_RETURN_IF_ERROR(FlushDevice(below.get(), image.path));
  }
  constexpr int kAttempts = 64;  // each fails because another process took the same free number, and waits longer
  // The kernel names the same free device to all callers, so the threads of this process ask one after the other.
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  int error = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(attempt));
    MOORING_ASSIGN_OR_RETURN(const unsigned number, spec.raw ? AddRawDevice() : FreeLoopNumber());
    absl::StatusOr<UniqueFd> fd = OpenDevice(number, spec.read_only ? O_RDONLY : O_RDWR);
    error = ENXIO;
    const bool no_node = spec.raw && !fd.ok() && ::access(LoopPath(number).c_str(), F_OK) != 0 && LoopExists(number);
    if (no_node) RemoveRawDevice(number);
    if (no_node) return NoRawDevice(fd.status());
    if (absl::IsNotFound(fd.status())) continue;
    if (!fd.ok()) {
      MOORING_RETURN_IF_ERROR(CheckLoopDevices());
      return spec.raw ? NoRawDevice(fd.status()) : fd.status();
    }
    OpenLoop configured;
    configured.fd = *std::move(fd);
    configured.info.device = LoopPath(number);
    error = ConfigureLoop(configured.fd.get(), file.get(), spec);
    if (error == EBUSY) continue;
    if (error != 0) break;
    absl::StatusOr<OpenLoop> loop = Finish(number, configured, spec);
    const absl::Status flushed = below.ok() ? FlushDevice(below.get(), image.path) : absl::OkStatus();
    if (!flushed.ok()) loop = flushed;  // a task wrote since the flush before
    if (!loop.ok()) ::ioctl(configured.fd.get(), LOOP_CLR_FD);
    return loop;
  }
  if (error == ENXIO) MOORING_RETURN_IF_ERROR(CheckLoopDevices());  // no device has a node
  return ErrnoStatus(error, "bind a loop device to", image.path);
}

}  // namespace

absl::StatusOr<OpenLoop> OpenOrAttachLoop(const LoopSpec& spec, const LockedImage& image) {
  if (spec.label.size() >= LO_NAME_SIZE) return InvalidArgument("label {} is too long", Quote(spec.label));
  MOORING_ASSIGN_OR_RETURN(const bool is_cut_short, HasUndoFile(image.path));
  if (is_cut_short) {
    return FailedPrecondition(
        "a check or a growth of the filesystem in {} was cut short: check it first, which takes that back",
        Quote(image.path));
  }
  MOORING_ASSIGN_OR_RETURN(std::optional<OpenLoop> existing, OpenExisting(spec, image));
  if (existing) return *std::move(existing);
  return Attach(spec, image);
}

absl::StatusOr<UniqueFd> LockUnattached(const LockedImage& image) {
  const auto find = [&image]() -> absl::StatusOr<std::optional<LoopInfo>> {
    MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, ListLoops());
    MOORING_RETURN_IF_ERROR(CheckNoneHangs(loops, image.path));
    const auto over =
        std::find_if(loops.begin(), loops.end(), [&image](const LoopInfo& loop) { return IsOver(loop, image.status); });
    if (over == loops.end()) return std::optional<LoopInfo>();
    LoopInfo found = *over;
    MOORING_RETURN_IF_ERROR(AskWhetherMounted(found));
    return std::optional<LoopInfo>(std::move(found));
  };
  const auto is_going = [](const std::optional<LoopInfo>& loop) { return loop && loop->is_going(); };
  MOORING_ASSIGN_OR_RETURN(const std::optional<LoopInfo> over, AskUntilSettled(find, is_going));
  if (over) return FailedPrecondition("{} is in use through {}", Quote(image.path), over->device);
  if (!S_ISREG(image.status.st_mode)) return UniqueFd();
  MOORING_ASSIGN_OR_RETURN(UniqueFd file, Reopen(image, O_RDWR));
  MOORING_RETURN_IF_ERROR(LockAttachment(file, image.path, ImageAccess::kWrite));
  return file;
}

bool IsOver(const LoopInfo& loop, const struct stat& file) {
  if (S_ISBLK(file.st_mode)) return loop.backing_rdev == file.st_rdev;
  return loop.backing_device == file.st_dev && loop.backing_inode == file.st_ino;
}

absl::StatusOr<std::vector<LoopInfo>> ListLoops() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<unsigned> numbers, UsedNumbers());
  return numbers.empty() ? std::vector<LoopInfo>() : AskLoops(numbers, ByNumberForList, HungLoop);
}

absl::Status CheckNoneHangs(const std::vector<LoopInfo>& loops, const std::string& file) {
  for (const LoopInfo& loop : loops) {
    // A hung device without a name may be over this file.
    if (!loop.hangs() || (!loop.label.empty() && NameOf(loop.label) != NameOf(file))) continue;
    return absl::DeadlineExceededError(
        fmt::format("{} over {}: no answer: the filesystem of that file, or what serves it, hangs or is dead; end or "
                    "mend that, and call again",
                    loop.device, Quote(loop.label)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LoopInfo>> LoopByNumber(dev_t device, bool mounted) {
  std::optional<LoopInfo> loop;
  if (major(device) != LOOP_MAJOR) return loop;
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenBound(minor(device)));
  if (!fd.ok()) return loop;
  MOORING_ASSIGN_OR_RETURN(loop, HeldReader(minor(device)));
  if (!loop) {
    MOORING_ASSIGN_OR_RETURN(loop, Status(fd.get(), minor(device)));
  }
  if (!loop) return loop;
  loop->mounted = mounted;
  if (!mounted) MOORING_RETURN_IF_ERROR(AskWhetherMounted(*loop));
  return loop;
}

absl::StatusOr<std::optional<std::string>> LoopLabel(dev_t device) {
  if (major(device) != LOOP_MAJOR) return std::optional<std::string>();
  MOORING_ASSIGN_OR_RETURN(const std::optional<LoopInfo> reader, HeldReader(minor(device)));
  if (reader) return std::optional<std::string>(reader->label);
  const absl::StatusOr<UniqueFd> fd = OpenDevice(minor(device), O_RDONLY);
  if (absl::IsNotFound(fd.status())) return std::optional<std::string>();
  if (!fd.ok()) return fd.status();
  loop_info64 status = {};
  if (::ioctl(fd->get(), LOOP_GET_STATUS64, &status) == 0) {
    MOORING_ASSIGN_OR_RETURN(std::string label, LabelOf(status, minor(device)));
    return std::optional<std::string>(std::move(label));
  }
  if (errno == ENXIO) return std::optional<std::string>();
  return ErrnoStatus(errno, "ask for the status of", LoopPath(minor(device)));
}

absl::StatusOr<UniqueFd> OpenAsFound(const LoopInfo& loop) {
  const unsigned number = minor(loop.device_number);
  absl::StatusOr<UniqueFd> fd = OpenDevice(number, O_RDONLY);
  if (absl::IsNotFound(fd.status())) return UniqueFd();
  if (!fd.ok()) return fd;
  MOORING_ASSIGN_OR_RETURN(std::optional<LoopInfo> now, HeldReader(number));
  if (!now) {
    MOORING_ASSIGN_OR_RETURN(now, Status(fd->get(), number));
  }
  if (!now || !now->IsSameDevice(loop)) return UniqueFd();
  return fd;
}

}  // namespace mooring
