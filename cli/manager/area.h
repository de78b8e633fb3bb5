// `mooring plugin|volume|claim|attach|events …`: the manager's client.
#ifndef MOORING_CLI_MANAGER_AREA_H_
#define MOORING_CLI_MANAGER_AREA_H_

#include "cli/command/area.h"

namespace mooring::cli::manager_area {

void Add(CLI::App& root, Action& chosen);

}  // namespace mooring::cli::manager_area

#endif  // MOORING_CLI_MANAGER_AREA_H_
