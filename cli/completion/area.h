// `mooring completion bash|zsh|fish`: what a shell needs to complete this program's command lines.
#ifndef MOORING_CLI_COMPLETION_AREA_H_
#define MOORING_CLI_COMPLETION_AREA_H_

#include "cli/area.h"

namespace mooring::cli::completion_area {

void Add(CLI::App& root, Action& chosen);

}  // namespace mooring::cli::completion_area

#endif  // MOORING_CLI_COMPLETION_AREA_H_
