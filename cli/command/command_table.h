// Commands as rows of tables. An area lists its commands, and one function of the area runs them.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/command/area.h"
#include "cli/flags/flags.h"
#include "cli/output/report.h"

namespace mooring::cli {

// `Run` is the type of the function that does the work of a command: each area has its own.
template <typename ArgumentsType, typename Run>
struct CommandOf {
  using Arguments = ArgumentsType;

  const char* name;
  const char* help;             // an imperative phrase: "Create a volume"
  FlagsOf<Arguments> required;  // positional arguments first
  FlagsOf<Arguments> optional;
  Run run;
  const char* footer = "";
  Duration timeout = std::chrono::seconds(60);  // of the call, unless --timeout is given
};

template <typename Command>
struct CommandGroup {
  using Commands = std::vector<Command> (*)();

  CommandGroup(const char* the_name, const char* the_help, std::vector<Commands> the_commands,
               std::vector<CommandGroup> groups_below = {})
      : name(the_name), help(the_help), commands(std::move(the_commands)), below(std::move(groups_below)) {}

  const char* name;  // "": the commands belong to the parent
  const char* help;
  std::vector<Commands> commands;
  std::vector<CommandGroup> below;
};

template <typename Command>
struct CommandTable {
  using Arguments = typename Command::Arguments;

  // Runs one command and returns its exit status. An error is reported, and its code decides on the exit status.
  absl::StatusOr<int> (*execute)(const Command& command, Arguments& arguments, const Streams& streams);
  FlagsOf<Arguments> every_command;  // flags that each command has
  // Null: each command has its own arguments. Otherwise all commands share these. The flags of every command belong
  // to the parent of the commands, and may stand before or after the command.
  std::shared_ptr<Arguments> shared = nullptr;
  const char* footer = "";  // of the commands that have none

  void Add(CLI::App& parent, const CommandGroup<Command>& group, Action& chosen) const {
    CLI::App* app = &parent;
    if (*group.name != '\0') {
      app = parent.add_subcommand(group.name, group.help);
      app->require_subcommand(1);
      if (shared != nullptr) app->fallthrough();
    }
    for (const auto& commands : group.commands) {
      for (const Command& command : commands()) AddCommand(*app, command, chosen);
    }
    for (const CommandGroup<Command>& below : group.below) Add(*app, below, chosen);
  }

 private:
  void AddCommand(CLI::App& parent, const Command& command, Action& chosen) const {
    const auto arguments = shared != nullptr ? shared : std::make_shared<Arguments>();
    CLI::App* app = parent.add_subcommand(command.name, command.help);
    AddFlags(*app, command.required, /*required=*/true, *arguments);
    AddFlags(*app, command.optional, /*required=*/false, *arguments);
    if (shared == nullptr) AddFlags(*app, every_command, /*required=*/false, *arguments);
    if (shared != nullptr) app->fallthrough();
    app->footer(*command.footer == '\0' ? footer : command.footer);
    app->callback([command, arguments, app, execute = execute, &chosen] {
      if (!app->get_subcommands().empty()) return;  // a command below it was named
      chosen = [command, arguments, app, execute](const Streams& streams) {
        const absl::StatusOr<int> status = execute(command, *arguments, streams);
        return status.ok() ? *status : Report(status.status(), arguments->json, *app, streams);
      };
    });
  }
};

}  // namespace mooring::cli
