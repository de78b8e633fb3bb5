// The areas of commands, such as `mooring csi …`, and their interface to the program.
#pragma once

#include <functional>

#include "cli/output/report.h"

namespace CLI {
class App;
}

namespace mooring::cli {

// Runs the chosen command after the whole command line is parsed, and returns the exit status. The root app must
// still exist.
using Action = std::function<int(const Streams& streams)>;

// Adds the commands of an area to `root`. Parsing stores the action of the command that the user names in `chosen`,
// which must outlive the parse.
using AddArea = void (*)(CLI::App& root, Action& chosen);

// Each area is a folder; its area.cc defines `Add`.
namespace mounts_area {  // mount, umount, list, show and propagation: mounts by hand, with the mounter in this process
void Add(CLI::App& root, Action& chosen);
}
namespace doctor_area {  // doctor: explains why a mount is not where it should be
void Add(CLI::App& root, Action& chosen);
}
namespace csi_area {  // csi: a client for people, which calls any CSI driver over its socket
void Add(CLI::App& root, Action& chosen);
}
namespace manager_area {  // plugin, volume, claim, attach, events, …: the manager's client
void Add(CLI::App& root, Action& chosen);
}
namespace completion_area {  // completion: prints the script by which a shell completes command lines of `mooring`
void Add(CLI::App& root, Action& chosen);
}

}  // namespace mooring::cli
