// The loop devices that tasks get: those of raw block volumes.
//
// A task may call every ioctl(2) on its device, and some need neither a capability nor write access. LOOP_CLR_FD
// detaches the device: at once, or with its last user. Then the kernel gives its number to the next file, and the node
// of the task leads to that file. LOOP_SET_STATUS64 changes the label. So
//
//   - raw devices have numbers of their own, and a number is used once. A process counts up from a random start. No
//     other loop device of Mooring gets such a number, also not from the kernel.
//
//   - a raw device is held by a second loop device on top of it, which no task gets, and whose number is the next one.
//     The kernel keeps the raw device while it is held, also when all processes of a container end. A process holds it
//     as well (mounter/loop/device_holder.h).
//
//   - the label of the hold names the volume. The label of the raw device itself is not believed.
//
//   65536  raw device of volume A ─▶ A.img        65538  raw device of volume B ─▶ B.img
//   65537  its hold ─▶ /dev/loop65536             65539  its hold ─▶ /dev/loop65538
#pragma once

#include <linux/loop.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mounter.h"

namespace mooring {

inline constexpr unsigned kFirstRawNumber = 1U << 16U;
inline constexpr unsigned kEndOfRawNumbers = 1U << 20U;  // of the minor numbers

bool IsInRawRange(unsigned number);  // a raw device, or a hold
bool IsRawNumber(unsigned number);
unsigned HoldOf(unsigned raw_number);

// Adds a device with a new number. It is bound to nothing yet, so another process may take it. Removes unused devices
// of the range first.
absl::StatusOr<unsigned> AddRawDevice();

// Removes all devices of the range that are bound to nothing.
void RemoveUnusedRawDevices();

// Removes a device that is bound to nothing. Another process may have it open: then a later AddRawDevice removes it.
void RemoveRawDevice(unsigned number);

// The label of the hold. Empty: the device is not held.
absl::StatusOr<std::optional<std::string>> LabelOfHold(unsigned raw_number);

// Puts a hold on the raw device, which is open as `fd`, or changes the label of its hold. FAILED_PRECONDITION: another
// program has the number of the hold.
absl::Status PutHold(int fd, unsigned raw_number, const std::string& label);

// The hold notes failed writes to the raw device. The kernel reports each once, and the process that it told may be
// killed before it can tell its caller.
enum class FailureNote {
  kNone,
  kUntold,
  kTold,  // some of the data is still only in memory
};

struct FlushedHold {
  int now = 0;  // the errno of this flush
  FailureNote noted = FailureNote::kNone;
};

// Flushes the raw device through its hold. The kernel reports a failed write once to each open file. If a task has got
// the report, a file that is opened later gets none. The hold has its file since the device was attached. `now` is 0
// also if there is no hold. An error: the hold cannot be asked, so nothing is known.
//
// A failure becomes kUntold. `has_failed`: a flush of the device has failed just now. That is noted first.
absl::StatusOr<FlushedHold> FlushHold(unsigned raw_number, bool has_failed = false);

void NoteFailure(unsigned raw_number, FailureNote note);

// Detaches the hold. OK if there is none.
absl::Status RemoveHold(unsigned raw_number);

}  // namespace mooring
