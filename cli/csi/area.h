// `mooring csi …`: a CSI client for people, which calls any CSI driver over its socket.
#ifndef MOORING_CLI_CSI_AREA_H_
#define MOORING_CLI_CSI_AREA_H_

#include "cli/command/area.h"

namespace mooring::cli::csi_area {

void Add(CLI::App& root, Action& chosen);

}  // namespace mooring::cli::csi_area

#endif  // MOORING_CLI_CSI_AREA_H_
