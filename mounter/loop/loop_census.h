// The status of many loop devices, of which some may hang.
//
// LOOP_GET_STATUS64 includes a stat(2) of the backing file. Where its filesystem hangs (a dead FUSE or NFS server), the
// caller hangs as well. A caller that lists all devices would be held up by one that does not concern it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "mounter/mounter.h"

namespace mooring {

using AskLoop = std::function<absl::StatusOr<std::optional<LoopInfo>>(unsigned number)>;  // empty: not in use

using StartAsker = std::function<void(std::function<void()>)>;  // std::system_error: no thread can be started

// Calls `ask` for each number in another thread. A device that does not answer within kPatience is left to that thread.
// This process does not ask it again before the answer has come. Until then `hung` answers for it, which must not
// hang. `start` is for tests.
absl::StatusOr<std::vector<LoopInfo>> AskLoops(const std::vector<unsigned>& numbers, const AskLoop& ask,
                                               const AskLoop& hung, const StartAsker& start = {});

}  // namespace mooring
