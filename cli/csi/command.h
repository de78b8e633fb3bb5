// The commands of `mooring csi`: one function returns the rows of each table. area.cc runs them.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "cli/command/command_table.h"
#include "cli/command/session.h"
#include "cli/csi/arguments.h"
#include "cli/csi/flags.h"
#include "cli/csi/request.h"
#include "csi.grpc.pb.h"

namespace mooring::cli::csi_area {

struct Session : SessionOf<Arguments> {
  // Fills the rest of `request` from the flags, and sends it.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Send(Method<Stub, Request, Response> method, Request request = {}) const {
    MOORING_RETURN_IF_ERROR(FillRequest(arguments, request));
    return client.Call(method, request);
  }
};
using Command = CommandOf<Arguments, absl::Status (*)(Session& session)>;
using Commands = std::vector<Command>;

Commands IdentityCommands();       // identity.cc
Commands ControllerCommands();     // controller.cc
Commands NodeCommands();           // node.cc
Commands SnapshotCommands();       // snapshots.cc
Commands GroupSnapshotCommands();  // snapshots.cc
Commands MetadataCommands();       // snapshots.cc

}  // namespace mooring::cli::csi_area
