// `mooring csi …`.
#include <memory>
#include <string>
#include <utility>

#include "base/socket_path.h"
#include "base/status.h"
#include "cli/csi/command.h"

namespace mooring::cli::csi_area {
namespace {

absl::StatusOr<ClientOptions> ClientOptionsOf(const Command& command, const Arguments& arguments) {
  if (arguments.socket.empty()) {
    return InvalidArgument("no driver is named: give --endpoint unix:///path/csi.sock or set CSI_ENDPOINT");
  }
  MOORING_ASSIGN_OR_RETURN(std::string socket, ParseSocketPath(arguments.socket));
  return ClientOptions{.socket_path = std::move(socket),
                       .timeout = arguments.timeout.value_or(command.timeout),
                       .server = {},
                       .classify = ClassifyCsi};
}

absl::StatusOr<int> Run(const Command& command, Arguments& arguments, const Streams& streams) {
  MOORING_ASSIGN_OR_RETURN(ClientOptions options, ClientOptionsOf(command, arguments));
  MOORING_RETURN_IF_ERROR(ReadSecretsFile(command, arguments));
  return RunOverSocket<Session>(command, arguments, std::move(options), streams);
}

absl::StatusOr<int> Execute(const Command& command, Arguments& arguments, const Streams& streams) {
  absl::StatusOr<int> status = Run(command, arguments, streams);
  if (status.ok()) return status;
  return arguments.secrets.Redact(status.status());  // a driver may repeat a secret in its error
}

}  // namespace

void Add(CLI::App& root, Action& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* csi = root.add_subcommand("csi", "Call a CSI driver over its socket");
  csi->require_subcommand(1);
  AddFlags(*csi, Shared::OfEveryCommand(kEndpoint), /*required=*/false, *arguments);
  const CommandTable<Command> table{.execute = Execute,
                                    .every_command = {},
                                    .shared = arguments,
                                    .footer = "Flags of every command: mooring csi --help"};
  const CommandGroup<Command> commands{
      "",
      "",
      {IdentityCommands, ControllerCommands, NodeCommands, MetadataCommands},
      {{"snapshot", "Manage snapshots of volumes", {SnapshotCommands}},
       {"group-snapshot", "Manage snapshots of several volumes at one moment", {GroupSnapshotCommands}}}};
  table.Add(*csi, commands, chosen);
}

}  // namespace mooring::cli::csi_area
