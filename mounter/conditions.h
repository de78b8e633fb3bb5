// The conditions of the combined calls (Mounter in mounter.h), for all its implementations.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "mounter/mounter.h"

namespace mooring {

bool IsExpected(const PathInfo& info, const ExpectedMount& expected);

// Whether UnmountIf may unmount, or remove, what is at the target.
bool MayUnmount(const PathInfo& target, const ExpectedMount& expected);

// The bind that BindIf makes of this source. Empty: the condition is not met.
std::optional<BindRequest> BindOf(const ConditionalBind& request, const PathInfo& source);

// DEADLINE_EXCEEDED: nobody waits for the call any more, so the caller believes that nothing was changed.
absl::Status CheckInTime(const std::string& path);

}  // namespace mooring
