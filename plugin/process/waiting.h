// What the plugin does while it cannot be a plugin: it has no directory to keep anything in.
#ifndef MOORING_PLUGIN_PROCESS_WAITING_H_
#define MOORING_PLUGIN_PROCESS_WAITING_H_

#include <signal.h>

#include <functional>

#include "absl/status/status.h"
#include "plugin/process/config.h"

namespace mooring {

// Asks `prepare` every second until it is OK; it has failed with `why`. Meanwhile a child of this process, without
// privileges, answers on the socket who the plugin is, and to Probe what is missing (FAILED_PRECONDITION); other calls
// are UNAVAILABLE with the same. INVALID_ARGUMENT of `prepare` mends itself never and is returned. CANCELLED: one of
// `signals`, which are blocked. UNKNOWN: the socket cannot be served, and the child has said why. Called while there is
// one thread.
absl::Status WaitUntilPrepared(const Config& config, const sigset_t& signals, absl::Status why,
                               const std::function<absl::Status()>& prepare);

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_WAITING_H_
