// The program `mooring`, without main.
#pragma once

#include <ostream>

#include "cli/output/report.h"

namespace mooring::cli {

// Parses `argv`, runs the command and returns the exit status. Answers go to `out`, everything else to `err`.
int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

// As Run, but only parses. Not for the names of mount helpers and for __complete.
int CheckArguments(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace mooring::cli
