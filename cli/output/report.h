// The output streams and the exit status of a command.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace mooring::cli {

struct Streams {
  std::ostream& out;  // answers
  std::ostream& err;  // everything else
};

// Scripts rely on these: docs/cli.md, "For scripts".
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;    // a call failed, or the answer is no
inline constexpr int kExitUsage = 2;     // the command line is wrong: nothing was sent or done
inline constexpr int kExitFindings = 3;  // `mooring doctor` has found a problem

// Prints the error to stderr and, with `json`, to stdout. Returns the exit status. A wrong command line is printed to
// stderr only: it concerns the author of a script, not the script.
int Report(const absl::Status& failure, bool json, const CLI::App& app, const Streams& streams);

// The hint after a wrong command line: "Try 'mooring csi stage --help'.\n".
std::string UsageHint(const CLI::App& app);

}  // namespace mooring::cli
