// The server side of proto/mounter.proto, in the mount helper: each channel has a thread. It ends when its control
// socket is closed.
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"
#include "mounter.pb.h"
#include "mounter/mounter.h"

namespace mooring {

// Limits of one plugin: running calls, abandoned calls that still hang in the helper, and idle channels.
inline constexpr int kMostCalls = 512;
inline constexpr int kMostHanging = 256;
inline constexpr int kMostIdle = 8;
// The 24 are for channels that the plugin has closed and the helper has not noticed yet. The helper closes a channel
// beyond kMostChannels at once.
inline constexpr int kMostChannels = kMostCalls + kMostHanging + kMostIdle + 24;

// Serves the channels that arrive over `control` (Parcels, mounter/helper/channel.h) until `control` is closed, because
// the plugin has ended. Then waits up to `patience` for running calls. A channel with a malformed request is closed and
// logged. DEADLINE_EXCEEDED: calls still run and use `mounter`, so the caller has to end the process at once.
absl::Status ServeHelper(const UniqueFd& control, Mounter& mounter, std::chrono::milliseconds patience);

// Executes one request, if it is well-formed.
pb::Answer AnswerTo(pb::Request request, Mounter& mounter);

}  // namespace mooring
