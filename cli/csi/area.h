// `mooring csi …`: a CSI client for people, for any driver's socket.
#ifndef MOORING_CLI_CSI_AREA_H_
#define MOORING_CLI_CSI_AREA_H_

#include "cli/area.h"

namespace mooring::cli::csi_area {

void Add(CLI::App& root, Action& chosen);

}  // namespace mooring::cli::csi_area

#endif  // MOORING_CLI_CSI_AREA_H_
