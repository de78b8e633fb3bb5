// The helper's side of proto/mounter.proto: takes channels, serves each in a thread of its own, ends with its control
// socket.
#ifndef MOORING_MOUNTER_HELPER_HELPER_SERVER_H_
#define MOORING_MOUNTER_HELPER_HELPER_SERVER_H_

#include <chrono>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"
#include "mounter.pb.h"
#include "mounter/mounter.h"

namespace mooring {

// What a plugin has at most: calls, calls given up that hang in the helper, and channels that wait for the next call.
inline constexpr int kMostCalls = 512;
inline constexpr int kMostHanging = 256;
inline constexpr int kMostIdle = 8;
// And some that the one side has closed and the other not noticed yet. One more is closed at once.
inline constexpr int kMostChannels = kMostCalls + kMostHanging + kMostIdle + 24;

// Serves the channels that come over `control` (Parcels, mounter/helper/channel.h) until that is closed, which is when
// the plugin has ended; then for what is under way at most `patience` more. A channel that carries what no plugin sends
// is closed, and logged. OK: nothing is under way. DEADLINE_EXCEEDED: something is; end the process, `mounter` is in
// use.
absl::Status ServeHelper(const UniqueFd& control, Mounter& mounter, std::chrono::milliseconds patience);

// One request: asked of `mounter`, if its form is right.
pb::Answer AnswerTo(const pb::Request& request, Mounter& mounter);

}  // namespace mooring

#endif  // MOORING_MOUNTER_HELPER_HELPER_SERVER_H_
