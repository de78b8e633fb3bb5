// Reports on the socket why the plugin cannot start yet: a directory that it needs is missing or unusable.
#pragma once

#include <signal.h>

#include <functional>

#include "absl/status/status.h"
#include "plugin/config/config.h"

namespace mooring {

// Calls `prepare` every second until it returns OK. `why` is the error of the call before. Meanwhile a child process
// without privileges serves the socket: Probe is FAILED_PRECONDITION with the error, other calls are UNAVAILABLE with
// it. INVALID_ARGUMENT of `prepare` is returned at once, because waiting does not help. CANCELLED: one of `signals`
// arrived; they are blocked. UNKNOWN: the child cannot serve the socket and has printed its error. The caller has one
// thread.
absl::Status WaitUntilPrepared(const Config& config, const sigset_t& signals, absl::Status why,
                               const std::function<absl::Status()>& prepare);

}  // namespace mooring
