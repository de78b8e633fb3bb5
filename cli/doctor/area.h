// `mooring doctor`: explains why a mount is not where it should be.
#ifndef MOORING_CLI_DOCTOR_AREA_H_
#define MOORING_CLI_DOCTOR_AREA_H_

#include "cli/command/area.h"

namespace mooring::cli::doctor_area {

void Add(CLI::App& root, Action& chosen);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_AREA_H_
