// How a command that failed ends.
#ifndef MOORING_CLI_OUTPUT_REPORT_H_
#define MOORING_CLI_OUTPUT_REPORT_H_

#include "absl/status/status.h"
#include "cli/area.h"

namespace mooring::cli {

// Tells people on stderr and, with `json`, scripts on stdout. Gives the exit status; a wrong command line is told to
// people alone: it is for whoever wrote the script, not for the script.
int Report(const absl::Status& failure, bool json, const CLI::App& app, const Streams& streams);

}  // namespace mooring::cli

#endif  // MOORING_CLI_OUTPUT_REPORT_H_
