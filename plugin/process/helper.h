// Starts the mount helper.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "mounter/helper/helper_mounter.h"
#include "plugin/config/config.h"

namespace mooring {

// Starts mooring-mounter, from the directory of this program or from /usr/libexec/mooring. Then gives up the privileges
// of this process (plugin/process/confinement.h), which must have one thread. `config` comes from PrepareDirectories.
// `lost`: see HelperMounter.
absl::StatusOr<std::unique_ptr<HelperMounter>> StartHelperAndConfine(const Config& config, std::function<void()> lost);

}  // namespace mooring
