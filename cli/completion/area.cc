// `mooring completion bash|zsh|fish`. The scripts ask `mooring __complete` for the candidates (candidates.h).
#include "cli/command/area.h"

#include <CLI/CLI.hpp>

#include "cli/output/report.h"

namespace mooring::cli::completion_area {
namespace {

constexpr char kBash[] = R"sh(# bash completion of mooring; made by: mooring completion bash
_mooring() {
  local current=${COMP_WORDS[COMP_CWORD]} candidate
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    if [[ $candidate == :files ]]; then
      COMPREPLY+=($(compgen -f -- "$current"))
    elif [[ $candidate == "$current"* ]]; then
      COMPREPLY+=("$candidate")
    fi
  done < <(mooring __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o filenames -F _mooring mooring
)sh";

constexpr char kZsh[] = R"sh(#compdef mooring
# zsh completion of mooring; made by: mooring completion zsh
_mooring() {
  local line
  local -a described
  for line in ${(f)"$(mooring __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    case $line in
      :files) _files ;;
      -*) [[ $words[CURRENT] == -* ]] && described+=(${line/$'\t'/:}) ;;
      *$'\t'*) described+=(${line/$'\t'/:}) ;;
      *) compadd -- $line ;;
    esac
  done
  (( $#described )) && _describe mooring described
}
if [ "$funcstack[1]" = _mooring ]; then _mooring "$@"; else compdef _mooring mooring; fi
)sh";

constexpr char kFish[] = R"sh(# fish completion of mooring; made by: mooring completion fish
function __mooring_candidates
    set -l current (commandline -ct)
    for line in (mooring __complete (commandline -opc)[2..] "$current" 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path "$current"
        else
            printf '%s\n' $line
        end
    end
end
complete -c mooring -f -a '(__mooring_candidates)'
)sh";

void AddShell(CLI::App& completion, const char* name, const char* help, const char* script, Action& chosen) {
  completion.add_subcommand(name, help)->callback([script, &chosen] {
    chosen = [script](const Streams& streams) {
      streams.out << script;
      return kExitOk;
    };
  });
}

}  // namespace

void Add(CLI::App& root, Action& chosen) {
  CLI::App* completion = root.add_subcommand("completion", "Print a script for shell completion");
  completion->require_subcommand(1);
  AddShell(*completion, "bash", "Print the script for bash: /usr/share/bash-completion/completions/mooring", kBash,
           chosen);
  AddShell(*completion, "zsh", "Print the script for zsh: a file _mooring in a directory of $fpath", kZsh, chosen);
  AddShell(*completion, "fish", "Print the script for fish: ~/.config/fish/completions/mooring.fish", kFish, chosen);
}

}  // namespace mooring::cli::completion_area
