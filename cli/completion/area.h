// `mooring completion bash|zsh|fish`: prints the script by which a shell completes command lines of `mooring`.
#ifndef MOORING_CLI_COMPLETION_AREA_H_
#define MOORING_CLI_COMPLETION_AREA_H_

#include "cli/command/area.h"

namespace mooring::cli::completion_area {

void Add(CLI::App& root, Action& chosen);

}  // namespace mooring::cli::completion_area

#endif  // MOORING_CLI_COMPLETION_AREA_H_
