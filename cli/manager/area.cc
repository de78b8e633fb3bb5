#include "cli/manager/area.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/status.h"
#include "cli/manager/command.h"
#include "cli/manager/connection.h"
#include "cli/manager/parse/volume_file.h"
#include "cli/output/failure.h"
#include "cli/output/report.h"

namespace mooring::cli::manager_area {
namespace {

struct Group {
  const char* name;  // "": the commands stand in `mooring` itself
  const char* help;
  std::vector<Commands (*)()> commands;
  std::vector<Group> below = {};
};

const std::vector<Group>& Groups() {
  static const std::vector<Group> groups{
      {"plugin", "the CSI plugins that the manager uses", {PluginCommands}},
      {"volume",
       "the manager's volumes",
       {VolumeCommands, LookCommands},
       {{"snapshot", "snapshots of volumes", {SnapshotCommands}}}},
      {"", "", {ClaimCommands, AttachmentCommands, EventCommands, WatchCommands}},
  };
  return groups;
}

bool Takes(const Command& command, const Flag& flag) {
  return std::find(command.optional.begin(), command.optional.end(), &flag) != command.optional.end();
}

// A file's name may come from the environment, where it is meant for the commands that take it alone.
absl::Status ReadFiles(const Command& command, Arguments& arguments) {
  if (Takes(command, kSecretsFile) && !arguments.secrets_file.empty()) {
    MOORING_RETURN_IF_ERROR(arguments.secrets.AddFile(arguments.secrets_file));
  }
  if (!arguments.environment_file.empty()) {
    MOORING_RETURN_IF_ERROR(arguments.environment.AddFile(arguments.environment_file));
  }
  if (arguments.file.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(arguments.described, ReadVolumeFile(arguments.file, arguments.secrets));
  return absl::OkStatus();
}

Duration TimeoutOf(const Command& command, const Arguments& arguments) {
  if (arguments.timeout) return *arguments.timeout;
  return arguments.start_timeout ? *arguments.start_timeout + kMargin : command.timeout;
}

absl::StatusOr<int> Execute(const Command& command, Arguments& arguments, const Streams& streams) {
  MOORING_ASSIGN_OR_RETURN(ClientOptions options, ClientOptionsFor(arguments.socket, TimeoutOf(command, arguments)));
  options.show_time = arguments.show_time;
  options.verbose = arguments.verbose;
  MOORING_RETURN_IF_ERROR(ReadFiles(command, arguments));
  const Client client(std::move(options), streams.err);
  Output output(streams.out, arguments.json);
  Session session{.arguments = arguments, .client = client, .output = output};
  MOORING_RETURN_IF_ERROR(command.run(session));
  return session.exit_status;
}

// A plugin may repeat a secret in its words, and the manager repeats the plugin.
int Report(const absl::Status& failure, const Arguments& arguments, const CLI::App& app, const Streams& streams) {
  absl::Status shown(failure.code(), arguments.environment.Redact(arguments.secrets.Redact(Message(failure))));
  if (!CallOf(failure).empty()) shown = OfCall(std::move(shown), CallOf(failure));
  return cli::Report(shown, arguments.json, app, streams);
}

int RunCommand(const Command& command, Arguments& arguments, const CLI::App& app, const Streams& streams) {
  const absl::StatusOr<int> status = Execute(command, arguments, streams);
  return status.ok() ? *status : Report(status.status(), arguments, app, streams);
}

void AddCommand(CLI::App& parent, const Command& command, Action& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* app = parent.add_subcommand(command.name, command.help);
  AddFlags(*app, command.required, /*required=*/true, *arguments);
  AddFlags(*app, command.optional, /*required=*/false, *arguments);
  AddFlags(*app, kEveryCommand, /*required=*/false, *arguments);
  app->footer(command.footer);
  app->callback([command, arguments, app, &chosen] {
    chosen = [command, arguments, app](const Streams& streams) {
      return RunCommand(command, *arguments, *app, streams);
    };
  });
}

void AddGroup(CLI::App& parent, const Group& group, Action& chosen) {
  CLI::App* app = &parent;
  if (*group.name != '\0') {
    app = parent.add_subcommand(group.name, group.help);
    app->require_subcommand(1);
  }
  for (const auto& commands : group.commands) {
    for (const Command& command : commands()) AddCommand(*app, command, chosen);
  }
  for (const Group& below : group.below) AddGroup(*app, below, chosen);
}

}  // namespace

absl::Status Session::Show(const google::protobuf::Message& answer, std::string_view text) const {
  return output.Show(*Redacted(answer, Classify), text);
}

void Add(CLI::App& root, Action& chosen) {
  for (const Group& group : Groups()) AddGroup(root, group, chosen);
}

}  // namespace mooring::cli::manager_area
