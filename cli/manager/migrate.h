// The command `mooring manager migrate`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command/area.h"

namespace mooring::cli::migrate_command {

// `manager`: the command `mooring manager`.
void Add(CLI::App& manager, Action& chosen);

}  // namespace mooring::cli::migrate_command
