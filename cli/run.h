// The program `mooring`, without main.
#ifndef MOORING_CLI_RUN_H_
#define MOORING_CLI_RUN_H_

#include <ostream>

#include "cli/output/exit_status.h"

namespace mooring::cli {

// Parses `argv`, runs the command and returns the exit status. Answers go to `out`, everything else to `err`.
int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace mooring::cli

#endif  // MOORING_CLI_RUN_H_
