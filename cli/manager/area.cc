// The commands for the manager.
#include <utility>

#include "base/status.h"
#include "cli/manager/command.h"
#include "cli/manager/connection.h"
#include "cli/manager/parse/volume_file.h"

namespace mooring::cli::manager_area {
namespace {

absl::Status ReadFiles(const Command& command, Arguments& arguments) {
  MOORING_RETURN_IF_ERROR(ReadSecretsFile(command, arguments));
  if (!arguments.environment_file.empty()) {
    MOORING_RETURN_IF_ERROR(arguments.environment.AddFile(arguments.environment_file));
  }
  if (arguments.file.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(arguments.described, ReadVolumeFile(arguments.file, arguments.secrets));
  return absl::OkStatus();
}

Duration TimeoutOf(const Command& command, const Arguments& arguments) {
  if (arguments.timeout) return *arguments.timeout;
  return arguments.start_timeout ? *arguments.start_timeout + kStartMargin : command.timeout;
}

absl::StatusOr<int> Run(const Command& command, Arguments& arguments, const Streams& streams) {
  MOORING_ASSIGN_OR_RETURN(ClientOptions options, ClientOptionsFor(arguments.socket, TimeoutOf(command, arguments)));
  MOORING_RETURN_IF_ERROR(ReadFiles(command, arguments));
  return RunOverSocket<Session>(command, arguments, std::move(options), streams);
}

absl::StatusOr<int> Execute(const Command& command, Arguments& arguments, const Streams& streams) {
  absl::StatusOr<int> status = Run(command, arguments, streams);
  if (status.ok()) return status;
  // A plugin may repeat a secret in its error, and the manager repeats the error of the plugin.
  return arguments.environment.Redact(arguments.secrets.Redact(status.status()));
}

}  // namespace

absl::Status Session::Show(const google::protobuf::Message& answer, std::string_view text) const {
  return output.Show(*Redacted(answer, Classify), text);
}

void Add(CLI::App& root, Action& chosen) {
  const CommandTable<Command> table{.execute = Execute, .every_command = Shared::OfEveryCommand(kManager)};
  table.Add(root, {"plugin", "Run and register the CSI plugins of the manager", {PluginCommands}}, chosen);
  table.Add(root,
            {"volume",
             "Manage the volumes of the manager",
             {VolumeCommands},
             {{"snapshot", "Manage snapshots of volumes", {SnapshotCommands}}}},
            chosen);
  table.Add(root, {"host", "Manage the hosts that share the state of the manager", {HostCommands}}, chosen);
  table.Add(root, {"", "", {ClaimCommands, AttachmentCommands, EventCommands}}, chosen);
  migrate_command::Add(*root.get_subcommand("manager"), chosen);
}

}  // namespace mooring::cli::manager_area
