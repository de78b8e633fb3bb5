// The mount helper of this plugin: found, started with what it may do, and then relied on.
#ifndef MOORING_PLUGIN_PROCESS_HELPER_H_
#define MOORING_PLUGIN_PROCESS_HELPER_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "mounter/helper/helper_mounter.h"
#include "plugin/process/config.h"

namespace mooring {

// Starts mooring-mounter, which lies beside this program or in /usr/libexec/mooring, and gives up this process's
// privileges (plugin/process/confinement.h); `config.state_dir` is there and real. Called while there is one thread.
// `lost`: see HelperMounter.
absl::StatusOr<std::unique_ptr<HelperMounter>> StartHelperAndConfine(const Config& config, std::function<void()> lost);

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_HELPER_H_
