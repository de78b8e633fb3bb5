// The commands of `mooring csi`: one function returns the rows of each table. area.cc runs them.
#ifndef MOORING_CLI_CSI_COMMAND_H_
#define MOORING_CLI_CSI_COMMAND_H_

#include <vector>

#include "absl/status/status.h"
#include "cli/command/command_table.h"
#include "cli/command/session.h"
#include "cli/csi/arguments.h"
#include "cli/csi/flags.h"
#include "csi.grpc.pb.h"

namespace mooring::cli::csi_area {

struct Session : SessionOf<Arguments> {};
using Command = CommandOf<Arguments, absl::Status (*)(Session& session)>;
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
