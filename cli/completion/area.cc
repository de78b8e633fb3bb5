#include "cli/completion/area.h"

#include <CLI/CLI.hpp>

#include "cli/completion/command_tree.h"
#include "cli/completion/scripts.h"
#include "cli/output/exit_status.h"

namespace mooring::cli::completion_area {
namespace {

using Script = std::string (*)(const std::vector<Command>& commands);

void AddShell(CLI::App& completion, const CLI::App& root, const char* name, const char* help, Script script,
              Action& chosen) {
  completion.add_subcommand(name, help)->callback([&root, script, &chosen] {
    chosen = [&root, script](const Streams& streams) {
      streams.out << script(CommandsOf(root));
      return kExitOk;
    };
  });
}

}  // namespace

void Add(CLI::App& root, Action& chosen) {
  CLI::App* completion = root.add_subcommand("completion", "Print a script for shell completion");
  completion->require_subcommand(1);
  AddShell(*completion, root, "bash", "Print the script for bash: /usr/share/bash-completion/completions/mooring",
           BashScript, chosen);
  AddShell(*completion, root, "zsh", "Print the script for zsh: a file _mooring in a directory of $fpath", ZshScript,
           chosen);
  AddShell(*completion, root, "fish", "Print the script for fish: ~/.config/fish/completions/mooring.fish", FishScript,
           chosen);
}

}  // namespace mooring::cli::completion_area
