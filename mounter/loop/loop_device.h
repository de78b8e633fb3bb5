// Loop devices, loop(4): one over a backing file at most, found by the file's inode, whoever made it.
#ifndef MOORING_MOUNTER_LOOP_LOOP_DEVICE_H_
#define MOORING_MOUNTER_LOOP_LOOP_DEVICE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/image/image.h"
#include "mounter/mounter.h"

namespace mooring {

// A loop device held open: it cannot be cleared or rebound while this lives.
struct OpenLoop {
  UniqueFd fd;  // for reading: some kernels mount nothing that is open for writing
  LoopInfo info;
  bool made = false;  // here and now; else it was there
};

struct LoopSpec {
  std::string label;
  bool read_only = false;
  bool auto_clear = false;  // of a new one: it goes when the last user, this object among them, lets go
};

bool IsOver(const LoopInfo& loop, const struct stat& file);

// The device of the image, or a new one: under its lock, so that two processes cannot make two. FAILED_PRECONDITION
// where a check or a growth of its filesystem was cut short.
absl::StatusOr<OpenLoop> OpenOrAttachLoop(const LoopSpec& spec, const LockedImage& image);

// FAILED_PRECONDITION names a device over the image. One that goes with its last user outlives that by some
// milliseconds: it is waited for.
absl::Status CheckUnattached(const LockedImage& image);

// All of this host, without LoopInfo::mounted (mounter/loop/loop_mounted.h). One that hangs holds this up for a moment,
// and only once.
absl::StatusOr<std::vector<LoopInfo>> ListLoops();

// DEADLINE_EXCEEDED: one of them hangs, and may be over `file`, by its name. For who would act on there being none.
absl::Status CheckNoneHangs(const std::vector<LoopInfo>& loops, const std::string& file);

// Empty: not a loop device, or not in use. `mounted`: known to be, and not looked for.
absl::StatusOr<std::optional<LoopInfo>> LoopByNumber(dev_t device, bool mounted);

// What LoopByNumber would give as the label, in fewer calls.
absl::StatusOr<std::optional<std::string>> LoopLabel(dev_t device);

// The device as it was found, held open; empty: it is no more, or another's.
absl::StatusOr<UniqueFd> OpenAsFound(const LoopInfo& loop);

// As the kernel has it for new devices: one that is used again comes with that of the volume before.
absl::Status ResetReadAhead(int fd, const LoopInfo& loop);

// INVALID_ARGUMENT: no whole number of sectors, or too many. FAILED_PRECONDITION: the device is of another file by now.
absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning);

// Whether one more can be had. FAILED_PRECONDITION: what is missing, and what to do about it. RESOURCE_EXHAUSTED: those
// that there are, are in use. Binds none.
absl::Status CheckLoopDevices();

absl::Status DetachLoopDevice(const LoopInfo& loop);
absl::Status ResizeLoopDevice(const LoopInfo& loop);

// Its label and lifetime, whatever they were.
absl::Status Relabel(const OpenLoop& loop, const std::string& label, bool auto_clear);

}  // namespace mooring

#endif  // MOORING_MOUNTER_LOOP_LOOP_DEVICE_H_
