// Completion scripts, from the tree of commands.
#ifndef MOORING_CLI_COMPLETION_SCRIPTS_H_
#define MOORING_CLI_COMPLETION_SCRIPTS_H_

#include <string>
#include <vector>

#include "cli/completion/command_tree.h"

namespace mooring::cli::completion_area {

std::string BashScript(const std::vector<Command>& commands);
std::string ZshScript(const std::vector<Command>& commands);
std::string FishScript(const std::vector<Command>& commands);

}  // namespace mooring::cli::completion_area

#endif  // MOORING_CLI_COMPLETION_SCRIPTS_H_
