// How an area of commands (`mooring csi …`) hangs itself into the command line.
#ifndef MOORING_CLI_AREA_H_
#define MOORING_CLI_AREA_H_

#include <functional>
#include <ostream>

namespace CLI {
class App;
}

namespace mooring::cli {

struct Streams {
  std::ostream& out;
  std::ostream& err;
};

// What the chosen command does once the whole line is parsed; gives the exit status. Called while `root` lives.
using Action = std::function<int(const Streams& streams)>;

// Adds the area's subcommands to `root`. The one the user names puts its action into `chosen`, which outlives the
// parse.
using AddArea = void (*)(CLI::App& root, Action& chosen);

}  // namespace mooring::cli

#endif  // MOORING_CLI_AREA_H_
