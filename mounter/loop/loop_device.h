// Loop devices, loop(4). A backing file has at most one, which is found by the file's inode, whoever made it.
//
// The holds of raw devices (mounter/loop/raw_device.h) are no devices here: no list has them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/image/image.h"
#include "mounter/loop/loop_config.h"
#include "mounter/mounter.h"

namespace mooring {

// A loop device held open: it cannot be cleared or rebound while this lives.
struct OpenLoop {
  UniqueFd fd;  // for reading: some kernels mount nothing that is open for writing
  LoopInfo info;
  bool made = false;  // by this call; else it was there already
};

bool IsOver(const LoopInfo& loop, const struct stat& file);

// The device of the image, or a new one. The lock of the image keeps two processes from making two. Over a block device
// a raw device is always new. FAILED_PRECONDITION: a check or a growth of its filesystem was cut short. Another host
// has attached it. It has a device of the other kind, raw or not.
absl::StatusOr<OpenLoop> OpenOrAttachLoop(const LoopSpec& spec, const LockedImage& image);

// Nobody attaches the image file while the descriptor is open. A block device is not locked, so its descriptor is not
// open. FAILED_PRECONDITION names a device over the image, or another host has attached it. Waits for a device that is
// going (mounter/loop/settle.h).
absl::StatusOr<UniqueFd> LockUnattached(const LockedImage& image);

// All loop devices of this host, without LoopInfo::mounted (mounter/loop/loop_mounted.h). A device that hangs delays
// this by half a second, and only once.
absl::StatusOr<std::vector<LoopInfo>> ListLoops();

// For callers that act when `file` has no device. DEADLINE_EXCEEDED: a device hangs, and by its name may be over
// `file`.
absl::Status CheckNoneHangs(const std::vector<LoopInfo>& loops, const std::string& file);

// Empty: not a loop device, or not in use. `mounted`: the caller knows that it is mounted, and sysfs is not asked.
absl::StatusOr<std::optional<LoopInfo>> LoopByNumber(dev_t device, bool mounted);

// The label that LoopByNumber would give, in fewer calls.
absl::StatusOr<std::optional<std::string>> LoopLabel(dev_t device);

// Opens the device if it is still the same (LoopInfo::IsSameDevice). Not open: it is free, or another file's.
absl::StatusOr<UniqueFd> OpenAsFound(const LoopInfo& loop);

// Sets the kernel's default read-ahead: a device that is used again has that of the volume before.
absl::Status ResetReadAhead(int fd, const LoopInfo& loop);

// INVALID_ARGUMENT: the read-ahead is no whole number of sectors, or too large. NOT_FOUND: the device has another file
// by now.
absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning);

// Checks that one more loop device is available, and binds none. FAILED_PRECONDITION says what is missing and what to
// do. RESOURCE_EXHAUSTED: all devices are in use.
absl::Status CheckLoopDevices();

// LoopDevices::HoldLoop and DetachLoop. `is_new`: this process has just attached it, so that nothing holds it yet.
absl::Status HoldLoopDevice(const LoopInfo& loop, bool is_new = false);
absl::Status DetachLoopDevice(const LoopInfo& loop);

absl::Status ResizeLoopDevice(const LoopInfo& loop);

// Writes the page cache of an open block device to its file or disk.
absl::Status FlushDevice(int fd, const std::string& device);

// Sets the device's label and whether it goes with its last user. The device shows the whole file again, if a task has
// changed that.
absl::Status Relabel(const OpenLoop& loop, const std::string& label, bool auto_clear);

}  // namespace mooring
