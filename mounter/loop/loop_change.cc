// Changes of an attached loop device: holding, flushing, detaching, resizing.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>

#include "base/deadline.h"
#include "base/status.h"
#include "mounter/loop/device_holder.h"
#include "mounter/loop/loop_config.h"
#include "mounter/loop/loop_device.h"
#include "mounter/loop/raw_device.h"
#include "mounter/loop/unwritten_pages.h"

namespace mooring {
namespace {

void SetAutoClear(loop_info64& status) { status.lo_flags |= LO_FLAGS_AUTOCLEAR; }

absl::Status ChangeStatus(int fd, const std::string& device, const std::function<void(loop_info64&)>& change) {
  loop_info64 now = {};
  if (::ioctl(fd, LOOP_GET_STATUS64, &now) != 0) return ErrnoStatus(errno, "ask for the status of", device);
  loop_info64 wanted = now;
  change(wanted);
  if (std::memcmp(&wanted, &now, sizeof now) == 0 || ::ioctl(fd, LOOP_SET_STATUS64, &wanted) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "change the status of", device);
}

// The number of a raw device; nullopt: it is another one.
absl::StatusOr<std::optional<unsigned>> RawNumberOf(int fd, const std::string& device) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return ErrnoStatus(errno, "look at", device);
  const bool raw = S_ISBLK(status.st_mode) && major(status.st_rdev) == LOOP_MAJOR && IsRawNumber(minor(status.st_rdev));
  return raw ? std::optional(minor(status.st_rdev)) : std::nullopt;
}

// Without a hold, nothing was noted.
absl::StatusOr<FlushedHold> FlushOnce(int fd, std::optional<unsigned> raw) {
  const int now = ::fsync(fd) == 0 ? 0 : errno;
  absl::StatusOr<FlushedHold> flushed = raw ? FlushHold(*raw, now != 0) : FlushedHold();
  if (now != 0 && flushed.ok()) flushed->now = now;
  if (!flushed.ok()) MakeDirtyAgain(fd).IgnoreError();
  return flushed;
}

absl::Status WithAdvice(const absl::Status& status, const char* advice) {
  return absl::Status(status.code(), Message(status) + advice);
}

}  // namespace

// The write that failed may succeed by now. But the kernel takes such data for written, and frees its memory when it
// needs some. Nobody knows whether all of it was still there. So a failure is told at least once, and each call fails
// until all that is still there is written.
absl::Status FlushDevice(int fd, const std::string& device) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<unsigned> raw, RawNumberOf(fd, device));
  MOORING_ASSIGN_OR_RETURN(FlushedHold first, FlushOnce(fd, raw));
  const bool was_good = first.now == 0 && first.noted == FailureNote::kNone;
  if (was_good) {
    MOORING_ASSIGN_OR_RETURN(const std::size_t swallowed, MakeSwallowedDirty(fd));
    if (swallowed == 0) return absl::OkStatus();
    first.now = ENOSPC;
    if (raw) NoteFailure(*raw, FailureNote::kUntold);
  }
  absl::Status written = was_good ? absl::OkStatus() : MakeDirtyAgain(fd);
  MOORING_ASSIGN_OR_RETURN(const FlushedHold again, FlushOnce(fd, raw));
  constexpr char kWhat[] = "write to its file or disk the data that tasks wrote to";
  if (again.now != 0) {
    MakeDirtyAgain(fd).IgnoreError();  // the kernel tries it again by itself
    written = ErrnoStatus(again.now, kWhat, device);
  } else if (written.ok()) {
    const absl::StatusOr<std::size_t> rest = was_good ? MakeSwallowedDirty(fd) : MakeUnwrittenDirty(fd);
    written = rest.ok() && *rest != 0 ? ErrnoStatus(was_good ? ENOSPC : EIO, kWhat, device) : rest.status();
  }
  // Nobody hears the answer after the deadline of the call.
  if (raw && !DeadlineScope::HasPassed()) NoteFailure(*raw, written.ok() ? FailureNote::kNone : FailureNote::kTold);
  if (!written.ok()) {
    return WithAdvice(
        written,
        ": the device stays attached, with what memory still has of that data; make room for its file, or "
        "mend the filesystem or disk of that file, and call again");
  }
  if (first.now == 0 && first.noted == FailureNote::kTold) return absl::OkStatus();
  return WithAdvice(
      ErrnoStatus(first.now != 0 ? first.now : EIO, kWhat, device),
      ": that was earlier. What memory still had of that data has been written now, but some may be lost: "
      "check the content of the volume, and call again to go on");
}

absl::Status HoldLoopDevice(const LoopInfo& loop, bool is_new) {
  OpenLoop open;
  MOORING_ASSIGN_OR_RETURN(open.fd, OpenAsFound(loop));
  if (!open.fd.ok()) return Aborted("{} was detached at this moment: call again", loop.device);
  open.info = loop;
  if (loop.raw) MOORING_RETURN_IF_ERROR(PutHold(open.fd.get(), minor(loop.device_number), loop.label));
  MOORING_RETURN_IF_ERROR(is_new ? StartHolder(open.fd.get()) : HoldDevice(open.fd.get(), loop.device_number));
  // A reader's file may hang. Only a task with CAP_SYS_ADMIN changes its start, and the hold keeps it attached.
  if (loop.raw && loop.read_only) return absl::OkStatus();
  return Relabel(open, loop.label, false);
}

// LOOP_CLR_FD would drop what the page cache of the device has not written yet: after it the device takes no writes any
// more. With autoclear, the kernel writes the page cache when the last user closes the device, and then detaches it.
//
// A task can exchange the file of its read-only device for one whose server hangs (LOOP_CHANGE_FD). Its status is not
// asked, because that asks the file. Nothing was written to it, so fsync(2) does not reach the file either.
absl::Status DetachLoopDevice(const LoopInfo& loop) {
  MOORING_ASSIGN_OR_RETURN(UniqueFd fd, OpenAsFound(loop));
  if (!fd.ok()) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(FlushDevice(fd.get(), loop.device));
  MOORING_RETURN_IF_ERROR(ReleaseDevice(loop.device_number));
  const unsigned number = minor(loop.device_number);
  if (loop.raw) MOORING_RETURN_IF_ERROR(RemoveHold(number));
  if (!loop.raw || !loop.read_only) {
    MOORING_RETURN_IF_ERROR(ChangeStatus(fd.get(), loop.device, SetAutoClear));
  } else if (::ioctl(fd.get(), LOOP_CLR_FD) != 0 && errno != ENXIO) {
    return ErrnoStatus(errno, "detach", loop.device);
  }
  fd.reset();
  if (loop.raw) RemoveUnusedRawDevices();
  return absl::OkStatus();
}

absl::Status ResizeLoopDevice(const LoopInfo& loop) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenAsFound(loop));
  if (!fd.ok()) return FailedPrecondition("{} is no longer the device of its file", loop.device);
  if (::ioctl(fd.get(), LOOP_SET_CAPACITY) != 0) return ErrnoStatus(errno, "take over the new size of", loop.device);
  return absl::OkStatus();
}

absl::Status Relabel(const OpenLoop& loop, const std::string& label, bool auto_clear) {
  return ChangeStatus(loop.fd.get(), loop.info.device, [&](loop_info64& status) {
    status.lo_flags &= ~static_cast<std::uint32_t>(LO_FLAGS_AUTOCLEAR);
    if (auto_clear) SetAutoClear(status);
    status.lo_offset = 0;
    status.lo_sizelimit = 0;
    SetLabel(status, label);
  });
}

}  // namespace mooring
