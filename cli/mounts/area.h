// `mooring mount`, `umount`, `list`, `show` and `propagation`: mounts by hand, with the mounter in this process.
#ifndef MOORING_CLI_MOUNTS_AREA_H_
#define MOORING_CLI_MOUNTS_AREA_H_

#include "cli/command/area.h"

namespace mooring::cli::mounts_area {

void Add(CLI::App& root, Action& chosen);

}  // namespace mooring::cli::mounts_area

#endif  // MOORING_CLI_MOUNTS_AREA_H_
