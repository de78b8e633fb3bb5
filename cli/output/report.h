// Reports the error of a command.
#ifndef MOORING_CLI_OUTPUT_REPORT_H_
#define MOORING_CLI_OUTPUT_REPORT_H_

#include "absl/status/status.h"
#include "cli/output/exit_status.h"
#include "cli/output/streams.h"

namespace CLI {
class App;
}

namespace mooring::cli {

// Prints the error to stderr and, with `json`, to stdout. Returns the exit status. A wrong command line is printed to
// stderr only: it concerns the author of a script, not the script.
int Report(const absl::Status& failure, bool json, const CLI::App& app, const Streams& streams);

}  // namespace mooring::cli

#endif  // MOORING_CLI_OUTPUT_REPORT_H_
