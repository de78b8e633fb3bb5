// A command of `mooring csi`: a line in a table. What it takes, what it does; parsing, the connection, errors and exit
// statuses are around all of them (area.cc).
#ifndef MOORING_CLI_CSI_COMMAND_H_
#define MOORING_CLI_CSI_COMMAND_H_

#include <vector>

#include "absl/status/status.h"
#include "cli/client.h"
#include "cli/csi/arguments.h"
#include "cli/csi/flags.h"
#include "cli/output/output.h"
#include "csi.grpc.pb.h"

namespace mooring::cli::csi_area {

// One command under way.
struct Session {
  const Arguments& arguments;
  const Client& client;
  Output& output;
  int exit_status = 0;  // for a command whose answer may be no
};

struct Command {
  const char* name;
  const char* help;
  Flags required;  // positional arguments first
  Flags optional;
  absl::Status (*run)(Session& session);
};

using Commands = std::vector<Command>;

Commands IdentityCommands();           // identity.cc
Commands ControllerCommands();         // controller.cc
Commands ControllerPublishCommands();  // controller_publish.cc
Commands NodeCommands();               // node.cc
Commands SnapshotCommands();           // snapshots.cc
Commands GroupSnapshotCommands();      // group_snapshots.cc
Commands MetadataCommands();           // metadata.cc

}  // namespace mooring::cli::csi_area

#endif  // MOORING_CLI_CSI_COMMAND_H_
