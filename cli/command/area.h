// The interface between the program and an area of commands, such as `mooring csi …`.
#ifndef MOORING_CLI_COMMAND_AREA_H_
#define MOORING_CLI_COMMAND_AREA_H_

#include <functional>

#include "cli/output/streams.h"

namespace CLI {
class App;
}

namespace mooring::cli {

// Runs the chosen command after the whole command line is parsed, and returns the exit status. The root app must
// still exist.
using Action = std::function<int(const Streams& streams)>;

// Adds the area's commands to `root`. Parsing stores the action of the command that the user names in `chosen`, which
// must outlive the parse.
using AddArea = void (*)(CLI::App& root, Action& chosen);

}  // namespace mooring::cli

#endif  // MOORING_CLI_COMMAND_AREA_H_
