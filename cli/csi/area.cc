#include "cli/csi/area.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/socket_path.h"
#include "base/status.h"
#include "cli/csi/command.h"
#include "cli/output/failure.h"
#include "cli/output/report.h"

namespace mooring::cli::csi_area {
namespace {

struct Group {
  const char* name;  // "": the commands stand in `mooring csi` itself
  const char* help;
  Commands (*commands)();
};

constexpr Group kGroups[] = {
    {"", "", IdentityCommands},
    {"", "", ControllerCommands},
    {"", "", ControllerPublishCommands},
    {"", "", NodeCommands},
    {"", "", MetadataCommands},
    {"snapshot", "snapshots of volumes", SnapshotCommands},
    {"group-snapshot", "snapshots of several volumes at one moment", GroupSnapshotCommands},
};

absl::StatusOr<ClientOptions> ClientOptionsOf(const Arguments& arguments) {
  if (arguments.endpoint.empty()) {
    return InvalidArgument("which driver? Give --endpoint unix:///path/csi.sock or set CSI_ENDPOINT");
  }
  MOORING_ASSIGN_OR_RETURN(std::string socket, ParseSocketPath(arguments.endpoint));
  return ClientOptions{.socket_path = std::move(socket),
                       .timeout = arguments.timeout,
                       .show_time = arguments.show_time,
                       .verbose = arguments.verbose,
                       .show_progress = ::isatty(STDERR_FILENO) != 0,
                       .server = {},
                       .classify = ClassifyCsi};
}

// The file's name may come from the environment, where it is meant for the commands that take secrets alone.
absl::Status ReadSecrets(const Command& command, Arguments& arguments) {
  const bool takes_secrets =
      std::find(command.optional.begin(), command.optional.end(), &kSecretsFile) != command.optional.end();
  if (!takes_secrets || arguments.secrets_file.empty()) return absl::OkStatus();
  return arguments.secrets.AddFile(arguments.secrets_file);
}

absl::StatusOr<int> Execute(const Command& command, Arguments& arguments, const Streams& streams) {
  MOORING_ASSIGN_OR_RETURN(ClientOptions options, ClientOptionsOf(arguments));
  MOORING_RETURN_IF_ERROR(ReadSecrets(command, arguments));
  const Client client(std::move(options), streams.err);
  Output output(streams.out, arguments.json);
  Session session{.arguments = arguments, .client = client, .output = output};
  MOORING_RETURN_IF_ERROR(command.run(session));
  return session.exit_status;
}

int Report(const absl::Status& failure, const Arguments& arguments, const CLI::App& app, const Streams& streams) {
  absl::Status shown(failure.code(), arguments.secrets.Redact(Message(failure)));
  if (!CallOf(failure).empty()) shown = OfCall(std::move(shown), CallOf(failure));
  return cli::Report(shown, arguments.json, app, streams);
}

int RunCommand(const Command& command, Arguments& arguments, const CLI::App& app, const Streams& streams) {
  const absl::StatusOr<int> status = Execute(command, arguments, streams);
  return status.ok() ? *status : Report(status.status(), arguments, app, streams);
}

void AddCommand(CLI::App& parent, const Command& command, const std::shared_ptr<Arguments>& arguments, Action& chosen) {
  CLI::App* app = parent.add_subcommand(command.name, command.help);
  AddFlags(*app, command.required, /*required=*/true, *arguments);
  AddFlags(*app, command.optional, /*required=*/false, *arguments);
  app->footer("Flags of every command: mooring csi --help");
  app->fallthrough();  // --endpoint and its like may stand behind the command, too
  app->callback([command, arguments, app, &chosen] {
    chosen = [command, arguments, app](const Streams& streams) {
      return RunCommand(command, *arguments, *app, streams);
    };
  });
}

CLI::App& AppOf(const Group& group, CLI::App& csi) {
  if (*group.name == '\0') return csi;
  CLI::App* app = csi.add_subcommand(group.name, group.help);
  app->require_subcommand(1);
  app->fallthrough();
  return *app;
}

}  // namespace

void Add(CLI::App& root, Action& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* csi = root.add_subcommand("csi", "talk to a CSI driver over its socket");
  csi->require_subcommand(1);
  AddFlags(*csi, Flags{&kEndpoint, &kTimeout, &kJson, &kTime, &kVerbose}, /*required=*/false, *arguments);
  for (const Group& group : kGroups) {
    CLI::App& app = AppOf(group, *csi);
    for (const Command& command : group.commands()) AddCommand(app, command, arguments, chosen);
  }
}

}  // namespace mooring::cli::csi_area
